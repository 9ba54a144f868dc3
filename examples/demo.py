"""An agent is killed inside a tool call, and a new process finishes the turn.

Run it with `make demo`, or `python examples/demo.py`; `--keep` leaves the database and the ledger for you to look at.
Nothing is needed but Locus itself: the model is the offline one, the database a SQLite file in a temporary directory.

This process starts a second one that talks with an agent. The agent books a table, by a tool that is slow: the
restaurant has written the booking into its ledger and has not answered yet. In that moment the process is killed with
SIGKILL, which no program can catch or prepare for. A third process opens the same database and finishes the turn.
In the end this process looks at the ledger and the database by itself, and exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from locus.agent import Agent
from locus.core import AgentState, Message, Role, ToolCall, ToolCompleteEvent, ToolStartEvent
from locus.errors import ModelError
from locus.memory import get_sync_checkpointer
from locus.memory.backends import SQLiteCheckpointer
from locus.models import MockModel, check_history
from locus.tools import ToolContext, tool

THREAD = "ada"
BEFORE = "My name is Ada."
ORDER = "Book a table for 4 at Trattoria Lina at 19:30."
AFTER = "What's my name?"
COLOURS = {"bold": "1", "dim": "2", "red": "1;31", "green": "32", "cyan": "36"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill an agent inside a tool call, and watch a new process go on.")
    parser.add_argument("--keep", action="store_true", help="leave the files, and print where they are")
    parser.add_argument("--play", choices=["first", "second"], help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        asyncio.run({"first": first_process, "second": second_process}[arguments.play](arguments.directory))
        return 0
    directory = Path(tempfile.mkdtemp(prefix="locus-demo-"))
    try:
        return direct(directory)
    finally:
        if arguments.keep:
            print(f"\nkept: {directory}")
        else:
            shutil.rmtree(directory)


# The restaurant: somebody else's system, with a ledger of its own.


class Restaurant:
    """Writes each booking into its ledger at once, and takes its time to confirm it.

    Like any good payment or booking service it takes an idempotency key: what it has under that key it does not write
    again, it only tells once more what it has.
    """

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger

    def bookings(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []

    def book(self, key: str, **wish: Any) -> dict[str, Any]:
        known = self.bookings()
        for booking in known:
            if booking["key"] == key:
                say("ledger", f"the restaurant knows this key already and confirms {booking['reference']}")
                return booking
        booking = {"reference": f"R-{101 + len(known)}", **wish, "key": key}
        with self.ledger.open("a") as file:
            file.write(json.dumps(booking) + "\n")
        say("ledger", f"the restaurant has written {booking['reference']} down, and is slow to confirm ...")
        time.sleep(60)
        return booking


def make_agent(directory: Path) -> Agent:
    restaurant = Restaurant(directory / "ledger.jsonl")

    # `idempotent` is the tool's promise that one key has one effect, so Locus may run it again after a crash.
    @tool(idempotent=True)
    def book_table(restaurant_name: str, guests: int, time: str, ctx: ToolContext) -> str:
        """Book a table at a restaurant.

        Args:
            restaurant_name: The restaurant.
            guests: How many people come.
            time: When they come.
        """
        say("tool", f"running, attempt {ctx.attempt}, idempotency key {ctx.idempotency_key[:8]}...")
        booked = restaurant.book(ctx.idempotency_key, restaurant=restaurant_name, guests=guests, time=time)
        return f"Booked {restaurant_name} for {guests} at {time}, reference {booked['reference']}"

    return Agent(model=MockModel(), tools=[book_table], checkpointer=SQLiteCheckpointer(directory / "agent.db"))


# What the two processes do.


async def first_process(directory: Path) -> None:
    agent = make_agent(directory)
    for prompt in (BEFORE, ORDER):
        say("user", prompt)
        async for event in agent.run(prompt, thread_id=THREAD):
            if isinstance(event, ToolStartEvent):
                say("agent", f"calls {event.tool_name}({written(event.arguments)}); that is on disk before it runs")
        say("agent", await last_answer(agent))


async def second_process(directory: Path) -> None:
    agent = make_agent(directory)
    state = await agent.get_state(THREAD)
    if state is None:
        raise SystemExit(f"the database has no thread {THREAD!r}")
    say("found", f"thread {THREAD!r} with {len(state.messages)} messages")
    for call in unfinished(state):
        say("found", f"{call.name}({written(call.arguments)}) was called and has no result")
    async for event in agent.continue_turn(THREAD):
        if isinstance(event, ToolCompleteEvent):
            say("tool", f"result: {event.result or event.error}")
    say("agent", await last_answer(agent))
    say("user", AFTER)
    result = await agent.arun(AFTER, thread_id=THREAD)
    say("agent", result.message)
    if agent.checkpointer is not None:
        await agent.checkpointer.close()


async def last_answer(agent: Agent) -> str:
    state = await agent.get_state(THREAD)
    return state.messages[-1].text if state else ""


def unfinished(state: AgentState) -> list[ToolCall]:
    """The calls of the thread that no result answers."""
    answered = {message.tool_call_id for message in state.messages}
    return [call for message in state.messages for call in message.tool_calls if call.id not in answered]


# What this process does: start them, kill one, and check.


def direct(directory: Path) -> int:
    began = time.monotonic()
    ledger = Restaurant(directory / "ledger.jsonl")
    title("A process talks with an agent whose memory is a SQLite file.")
    first = start("first", directory)
    wait_for_booking(ledger, first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    killed_at = time.time()
    print(paint("red", f"  {'SIGKILL':>8}  process {first.pid} is dead, in the middle of its tool call"))
    at_kill = read_state(directory)
    title("A new process opens the same database.")
    second = start("second", directory)
    second.wait()
    title("The ledger and the database, as a third party sees them.")
    show_ledger(ledger)
    show_checkpoints(directory, killed_at)
    title("What was claimed.")
    claims = list(check(first, second, ledger, at_kill, read_state(directory)))
    for claim, holds in claims:
        print(f"  {paint('green', 'yes') if holds else paint('red', 'NO ')}  {claim}")
    failed = [claim for claim, holds in claims if not holds]
    print(f"\n{'It did not hold.' if failed else 'All of it held.'} ({time.monotonic() - began:.1f} s)")
    return 1 if failed else 0


def start(name: str, directory: Path) -> subprocess.Popen[bytes]:
    sys.stdout.flush()
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), "--play", name, "--directory", str(directory)])


def wait_for_booking(ledger: Restaurant, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 40
    while not ledger.bookings():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise SystemExit("the first process ended, or took 40 s, without booking anything")
        time.sleep(0.02)
    time.sleep(0.6)  # so that a person sees the restaurant being slow


def read_state(directory: Path) -> AgentState:
    with get_sync_checkpointer(f"sqlite:///{directory / 'agent.db'}") as checkpointer:
        state = checkpointer.load(THREAD)
    if state is None:
        raise SystemExit("the database has lost the thread")
    return state


def check(
    first: subprocess.Popen[bytes],
    second: subprocess.Popen[bytes],
    ledger: Restaurant,
    at_kill: AgentState,
    at_end: AgentState,
) -> Iterator[tuple[str, bool]]:
    open_calls, bookings = unfinished(at_kill), ledger.bookings()
    yield (
        "The first process died of SIGKILL, with its call on record and no result.",
        (first.returncode == -signal.SIGKILL and len(open_calls) == 1),
    )
    yield (
        "Nothing was lost: the thread still begins with every message from before the kill.",
        (at_end.messages[: len(at_kill.messages)] == at_kill.messages),
    )
    yield (
        "Nothing was done twice: the ledger has one booking, under the key of the first attempt.",
        ([booking["key"] for booking in bookings] == [call.idempotency_key for call in open_calls]),
    )
    results = [message for message in at_end.messages if message.role is Role.TOOL]
    yield (
        "The new process finished the turn, with the reference of that one booking.",
        (
            second.returncode == 0
            and not unfinished(at_end)
            and len(results) == 1
            and all(booking["reference"] in results[0].text for booking in bookings)
        ),
    )
    yield (
        "It knew what it was told before the kill.",
        (at_end.messages[-2].text == AFTER and "Ada" in at_end.messages[-1].text),
    )
    yield "A model provider accepts the history: every call in it has its one result.", is_valid(at_end.messages[:-1])


def is_valid(messages: tuple[Message, ...]) -> bool:
    try:
        check_history(messages)
    except ModelError:
        return False
    return True


# How it looks.


def show_ledger(ledger: Restaurant) -> None:
    for booking in ledger.bookings():
        print(f"  ledger      {booking['reference']}  {written(booking, without='reference key')}")


def show_checkpoints(directory: Path, killed_at: float) -> None:
    print(f"\n  {'checkpoint':<21} {'at':<12} {'process':<8} {'messages':>8}  newest message")
    with get_sync_checkpointer(f"sqlite:///{directory / 'agent.db'}") as checkpointer:
        for entry in reversed(checkpointer.history(THREAD, limit=50)):
            state = checkpointer.load(THREAD, entry["checkpoint_id"])
            if state is None:
                continue
            newest = state.messages[-1]
            clock = datetime.fromtimestamp(entry["created_at"]).astimezone().strftime("%H:%M:%S.%f")[:-3]
            process = "first" if entry["created_at"] < killed_at else "second"
            text = f"{newest.role.value}: {newest.text}"
            print(
                f"  {entry['checkpoint_id']:<21} {clock:<12} {process:<8} {len(state.messages):>8}  "
                f"{paint('dim', text if len(text) <= 60 else text[:57] + '...')}"
            )
    print(
        paint("dim", "  The numbers in between are on disk too: the reply with its call, the mark of the taking over.")
    )


def written(arguments: dict[str, Any], *, without: str = "") -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items() if name not in without.split())


def title(text: str) -> None:
    print(f"\n{paint('bold', text)}", flush=True)


def say(who: str, text: str) -> None:
    colour = {"user": "cyan", "agent": "green", "found": "bold"}.get(who, "dim")
    print(f"  {paint(colour, f'{who:>8}')}  {text}", flush=True)


def paint(colour: str, text: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\033[{COLOURS[colour]}m{text}\033[0m"


if __name__ == "__main__":
    sys.exit(main())
