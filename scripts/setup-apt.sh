#!/usr/bin/env bash
# Installs the Debian packages that Roost builds and runs with. Does nothing (and asks no registry) when all are there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

packages=(
  build-essential cmake ninja-build ccache git pkg-config unzip curl ca-certificates
  libboost1.81-dev libboost-json1.81-dev libboost-url1.81-dev libssl-dev
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  redis-server libhiredis-dev libspdlog-dev libfmt-dev libcli11-dev libtomlplusplus-dev libxxhash-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  bubblewrap ripgrep iproute2 procps
)
# Tools for people who change the code; `make run` does without them.
if [ "${1:-}" = --dev ]; then packages+=(clang-format clang-tidy); fi

# Node.js and Python may be there from elsewhere; Debian's are taken only where they are not.
command -v npm >/dev/null || packages+=(npm)
python3 -m pip --version >/dev/null 2>&1 || packages+=(python3 python3-pip)
python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)

missing=()
for p in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} = 0 ] && exit 0

command -v apt-get >/dev/null || die "this is not a Debian system; install by hand: ${missing[*]}"
say "installing ${#missing[@]} Debian packages: ${missing[*]}"
install() {
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >&2
}
# A stale package list is the usual reason for a failed install, a fresh one is slow: refresh only when needed.
{ [ -n "$(ls -A /var/lib/apt/lists/*Packages* 2>/dev/null)" ] && install; } ||
  { as_root apt-get update -qq >&2 && install; } ||
  die "apt-get could not install: ${missing[*]}"
# Debian starts a system Redis on install; Roost runs its own private one, so leave that service as it is.
