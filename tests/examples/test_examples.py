"""Every example runs from any directory, ends well and leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples import approval

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "examples" / "demo.py"
EXAMPLES = sorted({*(ROOT / "examples").glob("*.py")} - {DEMO})


def run(path: Path, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LOCUS_MODEL_PROVIDER": "mock", "TMPDIR": str(directory), "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(path), *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_ends_well_and_leaves_no_files(path: Path, tmp_path: Path) -> None:
    answer = run(path, tmp_path)
    assert (answer.returncode, answer.stderr) == (0, ""), answer.stdout
    assert answer.stdout
    assert [*tmp_path.iterdir()] == []


def test_the_demo_holds_and_keeps_its_files_when_asked(tmp_path: Path) -> None:
    answer = run(DEMO, tmp_path, "--keep")
    assert (answer.returncode, answer.stderr) == (0, ""), answer.stdout
    assert "All of it held." in answer.stdout
    kept = Path(re.findall(r"^kept: (.+)$", answer.stdout, re.MULTILINE)[0])
    assert len((kept / "ledger.jsonl").read_text().splitlines()) == 1
    assert (kept / "agent.db").is_file()


def test_the_demo_fails_when_its_claims_do_not_hold_and_leaves_no_files(tmp_path: Path) -> None:
    """A restaurant that ignores the key books twice, and the demo says so."""
    code = DEMO.read_text()
    careless = code.replace('if booking["key"] == key:', "if False:").replace("time.sleep(60)", "time.sleep(1.5)")
    assert careless.count("if False:") == careless.count("time.sleep(1.5)") == 1
    (tmp_path / "careless.py").write_text(careless)
    answer = run(tmp_path / "careless.py", tmp_path)
    assert answer.returncode == 1
    assert re.search(r"NO\s+Nothing was done twice", answer.stdout), answer.stdout + answer.stderr
    assert [*tmp_path.iterdir()] == [tmp_path / "careless.py"]


def test_what_a_person_refuses_is_not_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    approval.ask(tmp_path / "approval.db")
    approval.decide(tmp_path / "approval.db", "no")
    said = capsys.readouterr().out
    assert "Refund 89.90 for order 1042?" in said
    assert "Mo refused the refund" in said
    assert "Refunded" not in said
