#!/usr/bin/env bash
# Makes a Python environment for the end-to-end tests in the cache folder and prints its path on standard output. The packages
# are pinned with their hashes (tests/e2e/requirements.txt); another lock makes another environment.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

lock="$(dirname "$0")/../tests/e2e/requirements.txt"
key=$( (python3 --version; cat "$lock") | sha256sum | cut -c1-12)
venv="$ROOST_CACHE/python-$key"

make_venv() {
  if [ -f "$venv/complete" ] && "$venv/bin/python" -c 'import pytest, openai, redis' 2>/dev/null; then return; fi
  say "making the Python environment of the tests (once)"
  rm -rf "$venv"
  python3 -m venv "$venv" >&2 || die "python3 -m venv failed (Debian: apt-get install python3-venv)"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r "$lock" >&2 ||
    die "the test packages could not be installed"
  touch "$venv/complete"
}

with_lock python make_venv
printf '%s\n' "$venv"
