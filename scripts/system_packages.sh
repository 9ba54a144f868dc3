#!/usr/bin/env bash
# Install the system tools that some tests use, where that is possible; elsewhere those tests say that they did not run.
set -euo pipefail

missing=()
for tool in strace; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ ${#missing[@]} -eq 0 ] || [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi

export DEBIAN_FRONTEND=noninteractive
echo "installing ${missing[*]}"
install=(apt-get install -y -qq --no-install-recommends "${missing[@]}")
"${install[@]}" >/dev/null 2>&1 || { apt-get update -qq && "${install[@]}" >/dev/null; } ||
    echo "could not install ${missing[*]}; the tests that need it will say so" >&2
