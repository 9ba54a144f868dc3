"""What every test may use: tools of the machine, and an account at the end of what did not run and what ran on what."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

ROOT = Path(__file__).resolve().parent.parent
BACKENDS = (
    "memory", "file", "sqlite", "postgresql", "mysql", "oracle", "redis", "opensearch", "oci_bucket", "http",
)  # fmt: skip
CERTIFY = bool(os.environ.get("LOCUS_CERTIFY"))
NOT_RUN = "not run: "

set_hypothesis_home_dir(str(ROOT / ".cache" / "hypothesis"))
# `make test` tries the same examples each time, so that it fails for a change and not for a throw of the dice;
# `make certify` tries others.
settings.register_profile(
    "test", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("certify", settings.get_profile("test"), derandomize=False, max_examples=2000)
settings.load_profile("certify" if CERTIFY else "test")


def _installable() -> bool:
    """Whether this machine could have any Debian package, so that lacking one is a fault of the set-up."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _not_run(what: str, why: str, *, fault: bool = False) -> None:
    if fault and os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"{what}: {why}, though this machine can have it; see scripts/system_packages.sh", pytrace=False)
    pytest.skip(f"{NOT_RUN}{what}: {why}")


def _may_trace(strace: str) -> bool:
    return subprocess.run([strace, "-o", os.devnull, "true"], capture_output=True, timeout=30).returncode == 0


@pytest.fixture(scope="session")
def require_tool() -> Callable[[str], str]:
    """`require_tool("strace")` is the program's path; without it the test is reported as not run (in CI it fails)."""

    def require(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            _not_run(name, f"{name} is not installed", fault=_installable())
        elif name == "strace" and not _may_trace(path):
            _not_run(name, "tracing is not permitted here")
        return str(path)

    return require


@pytest.fixture(scope="session")
def require_root() -> Callable[[str], None]:
    """`require_root("a full disk")` reports the test as not run unless it runs as root."""

    def require(what: str) -> None:
        if os.geteuid() != 0:
            _not_run(what, "needs root")

    return require


@pytest.fixture(scope="session")
def certify() -> bool:
    """Whether campaigns run at full size (`make certify`) or at the size of `make test`."""
    return CERTIFY


def _backends(item: pytest.Item) -> Iterator[str]:
    """The backends a test ran on, by its marker, the ids of its parameters, or the classes of its fixtures."""
    for mark in item.iter_markers("backend"):
        yield from mark.args
    if isinstance(item, pytest.Function):
        if hasattr(item, "callspec"):
            yield from item.callspec.id.split("-")
        for value in item.funcargs.values():
            kind = type(value)
            if kind.__module__.startswith("locus."):
                yield kind.__module__.rpartition(".")[2]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    # Properties travel with the report, so the account is right with several worker processes too.
    item.user_properties.extend(("backend", name) for name in sorted({*_backends(item)} & {*BACKENDS}))
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    write = terminalreporter.write_line
    skipped = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    lacking = {reason: count for reason, count in skipped.items() if reason.startswith(NOT_RUN)}
    if lacking:
        terminalreporter.section("not run")
        for reason, count in sorted(lacking.items()):
            write(f"{reason} ({count} test{'s' if count > 1 else ''})")
    reports = [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]
    campaigns = [text for report in reports for name, text in report.user_properties if name == "campaign"]
    if campaigns:
        terminalreporter.section("campaigns")
        for text in sorted(campaigns):
            write(text)
    ran = {outcome: _by_backend(terminalreporter.stats.get(outcome, [])) for outcome in ("passed", "failed")}
    names = [name for name in BACKENDS if any(count[name] for count in ran.values())]
    if names:
        terminalreporter.section("tests by backend")
        write(f"{'':12}{'passed':>8}{'failed':>8}")
        for name in names:
            write(f"{name:12}{ran['passed'][name]:>8}{ran['failed'][name]:>8}")


def _reason(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def _by_backend(reports: list[pytest.TestReport]) -> Counter[str]:
    return Counter(
        str(value) for report in reports for name, value in getattr(report, "user_properties", ()) if name == "backend"
    )
