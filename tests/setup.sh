# What the scripts of tests/, ./examples/run and .ci/run share. To be sourced.
# shellcheck shell=bash disable=SC2034

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build_packages=(
  g++ cmake ninja-build pkgconf
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  libabsl-dev rapidjson-dev libsqlite3-dev
)
test_packages=(libgtest-dev libgmock-dev)
proxy_packages=(nginx-light haproxy nghttp2-proxy)
bazel_packages=(bazel-bootstrap)
benchmark_packages=(libbenchmark-dev valgrind)
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

# Node.js, wherever it is from, and what the peers in tests/interop/node need.
install_node_peers() {
  local missing=() peers=$root/tests/interop/node
  command -v node >/dev/null || missing+=(nodejs)
  command -v npm >/dev/null || missing+=(npm)
  ((${#missing[@]} == 0)) || install_missing "${missing[@]}"
  # npm leaves a lock file of its own there, last of all.
  [[ ! $peers/node_modules/.package-lock.json -nt $peers/package-lock.json ]] ||
    return 0
  say "installing the packages of tests/interop/node"
  (cd "$peers" && npm ci)
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
