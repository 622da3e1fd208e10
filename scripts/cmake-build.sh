#!/usr/bin/env bash
# Configures (when needed) and builds one CMake preset: scripts/cmake-build.sh PRESET JOBS [TARGET...]
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/.."
preset=$1 jobs=${2:-$(nproc)}
targets=("${@:3}"); [ ${#targets[@]} -gt 0 ] || targets=(all)
arguments=()
if [ "$preset" = release ] || [ "$preset" = debug ]; then
  # Asked for at every build: a damaged cache is found and made again before the linker trips over it.
  arguments+=("-DROOST_LLAMA_DIR=$(scripts/build-llama.sh)")
fi
mkdir -p build
if ! cmake --preset "$preset" "${arguments[@]}" >"build/configure-$preset.log" 2>&1; then
  cat "build/configure-$preset.log" >&2
  die "CMake could not configure '$preset'"
fi
# A build with nothing to do says nothing.
if [ "$(cmake --build "build/$preset" --target "${targets[@]}" -- -n | tail -n 1)" != "ninja: no work to do." ]; then
  say "building ($preset)"
  NINJA_STATUS='    [%f/%t %es] ' cmake --build "build/$preset" --target "${targets[@]}" -j "$jobs" >&2
fi
