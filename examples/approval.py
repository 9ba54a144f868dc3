"""A tool asks a person, and the answer comes days later, in another process.

    python examples/approval.py

Here the three steps run one after the other, each in a process of its own, as they would on a server: the request that
wants the refund, nothing at all while nobody has decided, and the request that brings the decision. It needs no key and
no network, and leaves no files. One step by hand:

    python examples/approval.py ask approval.db
    python examples/approval.py decide approval.db yes
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from pydantic import BaseModel

from locus.agent import Agent
from locus.memory.backends import SQLiteCheckpointer
from locus.models import MockModel
from locus.tools import ToolContext, tool

THREAD = "refund-1042"


class Decision(BaseModel):
    approved: bool
    by: str


@tool
def refund(order: int, amount: float, ctx: ToolContext) -> str:
    """Refund an order.

    Args:
        order: The number of the order.
        amount: How much is paid back.
    """
    # The first time the run ends here. After `resume` the tool runs again from its beginning, and this returns the
    # answer: so what has an effect comes after the question.
    decision = ctx.interrupt({"question": f"Refund {amount:.2f} for order {order}?"}, response_type=Decision)
    if not decision.approved:
        return f"{decision.by} refused the refund of order {order}"
    return f"Refunded {amount:.2f} for order {order}, approved by {decision.by}"


def agent_on(database: Path) -> Agent:
    return Agent(model=MockModel(), tools=[refund], checkpointer=SQLiteCheckpointer(database))


def ask(database: Path) -> None:
    result = agent_on(database).run_sync("Refund order 1042, amount 89.90", thread_id=THREAD)
    print(f"  stopped because it is {result.stop_reason}; open questions:")
    for question in result.interrupts:
        print(f"  - {question['tool_name']}: {question['payload']['question']}")
        print(f"    an answer has: {', '.join(question['response_schema']['properties'])}")


def decide(database: Path, answer: str) -> None:
    decision = Decision(approved=answer == "yes", by="Mo")
    result = agent_on(database).resume_sync(decision.model_dump(), thread_id=THREAD)
    print(f"  {result.message}")


def in_a_process(*arguments: str) -> None:
    sys.stdout.flush()
    subprocess.run([sys.executable, __file__, *arguments], check=True)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="locus-") as directory:
        database = str(Path(directory) / "approval.db")
        print("A request wants a refund:")
        in_a_process("ask", database)
        print("\nThat process is gone. A person decides, and another process takes the answer:")
        in_a_process("decide", database, "yes")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ask", path]:
            ask(Path(path))
        case ["decide", path, answer]:
            decide(Path(path), answer)
        case _:
            main()
