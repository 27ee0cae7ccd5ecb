# What ./tests/run, ./examples/run and .ci/run share. To be sourced.
# shellcheck shell=bash disable=SC2034

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build_packages=(
  g++ cmake ninja-build pkgconf
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  libabsl-dev rapidjson-dev libsqlite3-dev
)
test_packages=(libgtest-dev libgmock-dev)
fuzz_packages=(clang libclang-rt-14-dev)

say() { printf '== %s\n' "$*" >&2; }

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# install_missing PACKAGE...
install_missing() {
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system; if the build fails, install the likes of: $*"
    return
  fi
  local package missing=() as_root=()
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      say "please install: ${missing[*]}"
      return 1
    fi
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -q </dev/null
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
}

# configure PRESET [CMAKE-OPTION...]
configure() {
  say "configuring $1"
  (cd "$root" && cmake --preset "$@")
}

# build PRESET [CMAKE-OPTION...]
build() {
  say "building $1"
  (cd "$root" && cmake --build --preset "$@")
}
