# Shared by the set-up scripts: messages, the cache folder, checked downloads. Source it; it runs nothing.

# Everything that is expensive to make and not part of the checkout lives here (llama.cpp, models, Python packages).
ROOST_CACHE="${ROOST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/roost}"

LLAMA_VERSION=v0.5.0
LLAMA_NPM_PACKAGE=node-llama-cpp@3.22.1
LLAMA_NPM_SHA256=a0d9dd80eacd2ab1cfe71aee57ac8a806487fd70b3d2a38fbec637752d9e5c5f

say()  { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
note() { printf '    %s\n' "$*" >&2; }
die()  { printf '\033[1;31merror:\033[0m %s\n' "$*" >&2; exit 1; }

# as_root COMMAND...: runs a command as root, by sudo where we are not.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "needs root for: $* (run as root or install sudo)"
  fi
}

# check_sha256 FILE HEX: true when the file has that hash.
check_sha256() { [ -f "$1" ] && printf '%s  %s\n' "$2" "$1" | sha256sum --check --status; }

# with_lock NAME COMMAND...: one process at a time does the named set-up step; the others wait for it.
with_lock() {
  local name=$1; shift
  mkdir -p "$ROOST_CACHE"
  exec 9>"$ROOST_CACHE/.lock-$name"
  if ! flock -n 9; then note "waiting for another set-up of '$name' to finish"; flock 9; fi
  "$@" 9>&-
}
