"""What the documents say is true: their code runs and prints what is beside it, their links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from locus.agent import Agent
from locus.errors import ConfigError
from locus.models import MockModel
from tests.examples.blocks import blocks, compiled

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def run(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LOCUS_MODEL_PROVIDER": "mock", "PYTHONWARNINGS": "error"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60)


def test_the_code_of_the_documents_runs_and_prints_what_is_beside_it(tmp_path: Path) -> None:
    answer = run([str(Path(__file__).with_name("blocks.py")), str(tmp_path), *map(str, DOCUMENTS)], tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.split() == [path.name for path in DOCUMENTS]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_code_that_is_not_run_is_at_least_python(path: Path) -> None:
    for block in blocks(path):
        assert compiled(block, path).co_filename == str(path)


def test_the_first_example_of_the_readme_is_a_program_of_twelve_lines(tmp_path: Path) -> None:
    first = next(blocks(ROOT / "README.md"))
    assert len([line for line in first.code.splitlines() if line.strip()]) <= 12
    (tmp_path / "example.py").write_text(first.code)
    for _ in range(2):  # and it may be started again
        answer = run(["example.py"], tmp_path)
        assert (answer.returncode, answer.stdout, answer.stderr) == (0, "Your name is Ada.\n", "")


@pytest.mark.parametrize(
    "options", [{"checkpointer": "postgresql://host/db"}, {"model": "openai:some-model"}, {"memory_manager": object()}]
)
def test_what_is_not_there_yet_says_so(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Agent(**{"model": MockModel(), **options})


def anchors(path: Path) -> set[str]:
    titles = [re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(path.read_text())]
    return {title.strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda p: p.name)
def test_links_within_the_project_lead_somewhere(path: Path) -> None:
    broken = []
    for link in LINK.findall(path.read_text()):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []
