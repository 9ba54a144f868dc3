#!/usr/bin/env bash
# Write constraints.txt anew: the newest versions that pyproject.toml allows, with hashes, for every supported Python.
# Needs uv on the PATH (`pip install uv`). Give package names to move only those: scripts/update_constraints.sh ruff mypy
set -euo pipefail
cd "$(dirname "$0")/.."

upgrade=(--upgrade)
if [ $# -gt 0 ]; then
    upgrade=()
    for package in "$@"; do upgrade+=(--upgrade-package "$package"); done
fi

uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-header --no-annotate --quiet \
    "${upgrade[@]}" --output-file constraints.txt
