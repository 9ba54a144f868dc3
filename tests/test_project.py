"""The project keeps its own rules: what is shipped, what is pinned, what the code looks like."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import pkgutil
import re
import statistics
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import locus

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "locus"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Written in two pieces, so that this file does not name what it looks for.
REGISTRIES = re.compile(r"pypi\." "org|python" "hosted|anaconda" r"\.org|registry\.npm" "js|repo1?\\.maven")
HOMES = re.compile(r"(?<![\w.])(/ro" "ot/|/ho" "me/[a-z]|/Us" "ers/[A-Za-z])")


@cache
def tracked_files() -> list[Path]:
    """What is in the repository, or is about to be; outside of one, what was unpacked."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True)
    if answer.returncode == 0:
        return [path for line in answer.stdout.splitlines() if (path := ROOT / line).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not {".venv", ".cache"} & {*path.parts}]


def texts() -> list[tuple[Path, str]]:
    """The tracked files that are text."""
    raw = [(path.relative_to(ROOT), path.read_bytes()) for path in tracked_files()]
    return [(path, content.decode("utf-8", "replace")) for path, content in raw if b"\0" not in content]


def modules() -> list[ModuleType]:
    names = [info.name for info in pkgutil.walk_packages([str(SRC)], "locus.")]
    return [locus, *(importlib.import_module(name) for name in names if not name.endswith("__main__"))]


def function_lengths() -> dict[str, int]:
    lengths = {}
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                lengths[f"{path.relative_to(SRC)}:{node.lineno} {node.name}"] = node.end_lineno - node.lineno + 1
    return lengths


def pinned() -> dict[str, str]:
    """The requirements of the constraints file by name, each with its hashes."""
    joined = (ROOT / "constraints.txt").read_text().replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return {line.partition("==")[0]: line for line in lines}


@pytest.mark.parametrize("pattern", [REGISTRIES, HOMES, re.compile(re.escape(f"{ROOT}/"))], ids=lambda p: "no-match-of")
def test_no_file_names_a_registry_host_or_a_path_of_a_machine(pattern: re.Pattern[str]) -> None:
    assert [f"{path}: {found.group()}" for path, text in texts() if (found := pattern.search(text))] == []


def test_constraints_pin_every_package_by_hash() -> None:
    assert pinned()
    unpinned = [name for name, line in pinned().items() if not re.search(r"==\S+ .*--hash=sha256:[0-9a-f]{64}", line)]
    assert unpinned == []


def test_constraints_name_no_host_and_no_path() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert not re.search(r"://|^\s*(-i|-f|--index|--extra-index|--find-links|--trusted)|@ |\.\./", text, re.MULTILINE)


def test_constraints_cover_what_the_project_declares() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    declared = {re.split(r"[<>=\[ ]", line)[0] for line in [*PROJECT["dependencies"], *groups["dev"]]}
    assert declared <= pinned().keys()


def test_the_installed_versions_are_the_pinned_ones() -> None:
    wrong = []
    for name, line in pinned().items():
        version = line.partition("==")[2].split()[0]
        if " ; " not in line and importlib.metadata.version(name) != version:
            wrong.append(f"{name}: {importlib.metadata.version(name)} instead of {version}")
    assert wrong == []


def test_the_core_depends_on_pydantic_alone() -> None:
    assert [re.split(r"[<>=]", line)[0] for line in PROJECT["dependencies"]] == ["pydantic"]


def test_importing_locus_imports_no_driver_and_no_test_tool() -> None:
    heavy = ["pytest", "hypothesis", "httpx", "asyncpg", "redis", "openai", "anthropic", "numpy"]
    code = f"import sys, locus, locus.agent, locus.memory; print([m for m in {heavy} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_the_version_is_the_same_everywhere() -> None:
    assert locus.__version__ == PROJECT["version"] == importlib.metadata.version("locus-memory")


def test_the_changelog_has_an_entry_for_this_version() -> None:
    assert re.search(rf"^## {re.escape(locus.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_readme_is_the_description_of_the_package() -> None:
    assert PROJECT.get("readme") == "README.md" or not (ROOT / "README.md").exists()


def test_the_package_is_typed() -> None:
    assert (SRC / "py.typed").is_file()


def test_generated_files_are_fresh() -> None:
    command = [sys.executable, "scripts/generate_sync.py", "--check"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_every_name_a_module_offers_exists_and_once() -> None:
    for module in modules():
        offered = getattr(module, "__all__", [])
        assert len(offered) == len({*offered}), module.__name__
        assert [name for name in offered if not hasattr(module, name)] == [], module.__name__


def test_a_module_that_lists_its_names_lists_every_public_class() -> None:
    missing = [
        f"{module.__name__}.{name}"
        for module in modules()
        if hasattr(module, "__all__")
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
        if not name.startswith("_") and name not in module.__all__
    ]
    assert missing == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        path for path in SRC.rglob("*.py") if (code := path.read_text()) and not ast.get_docstring(ast.parse(code))
    ]
    assert silent == []


def test_functions_are_short() -> None:
    lengths = function_lengths()
    assert {name: length for name, length in lengths.items() if length > 80} == {}
    assert statistics.median(lengths.values()) <= 8
    assert statistics.quantiles(lengths.values(), n=20)[-1] <= 40


def test_modules_are_short_and_named_by_a_noun() -> None:
    assert {path.name for path in SRC.rglob("*.py")} & {"utils.py", "helpers.py", "misc.py", "common.py"} == set()
    generated = "generated by"
    long = {
        str(path.relative_to(SRC)): lines
        for path in SRC.rglob("*.py")
        if (lines := len((code := path.read_text()).splitlines())) > 600 and generated not in code[:200].lower()
    }
    assert long == {}
