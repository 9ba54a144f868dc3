#!/usr/bin/env bash
# Make .venv with the pinned versions of constraints.txt and Locus itself, or find it made.
# PYTHON names the interpreter. Without it: the one .venv has already, else python3, else the newest that is new enough.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/locus-setup

new_enough() { command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

choose_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then echo "$candidate" && return; fi
    done
    echo "Locus needs Python 3.11 or newer and none was found; name one: make setup PYTHON=/path/to/python3" >&2
    return 1
}

# What .venv was made from. The directory is part of it: an environment that was copied along points at its old place.
fingerprint() {
    "$1" - <<'PY'
import hashlib, pathlib, sys, tomllib
project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())
parts = [sys.version, sys.base_prefix, str(pathlib.Path.cwd()), pathlib.Path("constraints.txt").read_text()]
parts += [repr(project["build-system"]), repr(project["project"]), repr(project["tool"]["hatch"])]
print(hashlib.sha256("\0".join(parts).encode()).hexdigest())
PY
}

fresh() { [ -x "$venv/bin/python" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint "$1")" ]; }

if [ -z "${PYTHON:-}" ] && fresh "$venv/bin/python" 2>/dev/null; then exit 0; fi
python=${PYTHON:-$(choose_python)}
if ! new_enough "$python"; then
    echo "PYTHON=$python is not a Python of 3.11 or newer" >&2
    exit 1
fi
if fresh "$python"; then exit 0; fi

echo "setting up $venv with $("$python" --version)"
rm -rf "$venv"
if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
    pip=("$venv/bin/python" -m pip)
else # Debian keeps ensurepip in a package of its own; the interpreter's own pip can install from outside
    "$python" -m venv --without-pip "$venv"
    pip=("$python" -m pip --python "$venv/bin/python")
fi
install=("${pip[@]}" --disable-pip-version-check --quiet install --no-compile)
"${install[@]}" --require-hashes --only-binary :all: -r constraints.txt
"${install[@]}" --no-deps --no-build-isolation -e .
fingerprint "$venv/bin/python" >"$stamp"
