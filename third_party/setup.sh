#!/usr/bin/env bash
# Sets up a checkout: downloads what manifest.toml lists. It first prints what it
# will download and where. Running it again repeats nothing.
#
#   third_party/setup.sh base      for the default build and the tests
#   third_party/setup.sh peers     the Python programs with which tests compare results
#   third_party/setup.sh python    for the tests of the Python package, in the same versions
#   third_party/setup.sh browser   a browser for the tests of the HTML report
#   third_party/setup.sh slurm     a batch system for the tests of submission
#   third_party/setup.sh nfs       virtual machines with a network file system for tests
#   third_party/setup.sh cuda      for the GPU build and the tests of its kernels
#   third_party/setup.sh lock-peers  rewrites peers.lock: the newest versions that the
#                                  manifest's peers permit, with their hashes
#
# Everything except Debian packages, Go's module cache and one header (see
# stamp_headers) is written to third_party/fetched. System packages are installed
# only if you are root. Otherwise the script prints the command to run.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
manifest=$here/manifest.toml
fetched=$here/fetched
want=${1:-base}

die() { echo "set-up: $*" >&2; exit 1; }
warn() { echo "set-up: warning: $*" >&2; }

# rows KIND KEY...: prints a line for each [[KIND]] of the manifest, with the values of
# the keys separated by tabs. This parses only the subset of TOML that the manifest uses,
# so that set-up needs no other program.
rows() {
  awk -v kind="[[$1]]" -v keys="${*:2}" '
    function flush(  line, i) {
      if (on) { line = v[k[1]]; for (i = 2; i <= n; i++) line = line "\t" v[k[i]]; print line }
      split("", v)
    }
    BEGIN { n = split(keys, k, " ") }
    /^\[/ { flush(); on = ($1 == kind) }
    on && / = / { key = $1; sub(/^[^=]*= */, ""); gsub(/^"|"$/, ""); v[key] = $0 }
    END { flush() }' "$manifest"
}

# missing_packages: prints name, MB and purpose of the required packages that are not installed.
missing_packages() {
  rows apt set name mb for | while IFS=$'\t' read -r set name mb purpose; do
    [ "$set" = "$want" ] || continue
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' ||
      printf '%s\t%s\t%s\n' "$name" "$mb" "$purpose"
  done
}

# modules_here: succeeds if Go's module cache has everything that is built and tested.
modules_here() { (cd "$here/.." && GOPROXY=off GOFLAGS=-mod=readonly go list -deps -test ./... >/dev/null 2>&1); }

# wheel_here NAME SHA256: succeeds if the wheel with this hash is unpacked.
wheel_here() { [ "$(cat "$fetched/$1/wheel.sha256" 2>/dev/null)" = "$2" ]; }

# unpack_wheel downloads one wheel, verifies its hash, and moves the files in keep to
# fetched/NAME. That folder appears complete or not at all, because the move is last.
unpack_wheel() {
  local name=$1 version=$2 file=$3 sha=$4 python=$5 platform=$6 keep=$7 tmp=$fetched/$1.part path
  rm -rf "$tmp"
  mkdir -p "$tmp/unpacked"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version "$python" --platform "$platform" --dest "$tmp" "$name==$version" || return 1
  echo "$sha  $tmp/$file" | sha256sum --check --quiet || return 1
  python3 -m zipfile -e "$tmp/$file" "$tmp/unpacked" || return 1
  mkdir "$tmp/$name"
  for path in $keep; do mv "$tmp/unpacked/$path" "$tmp/$name" || return 1; done
  echo "$sha" >"$tmp/$name/wheel.sha256"
  rm -rf "${fetched:?}/$name"
  mv "$tmp/$name" "$fetched/$name"
}

# stamp_headers writes the hash of the headers to a file of the package that includes
# them. Go's build cache considers only the package's own files, and would otherwise keep
# using objects that were built without these headers, or with others.
stamp_headers() {
  local package=$here/../mujoco/internal/mjc sum
  sum=$(cat "$fetched/mujoco/wheel.sha256" 2>/dev/null) && [ -d "$package" ] || return 0
  grep -qs "$sum" "$package/stamp.h" || echo "// headers of the wheel $sum" >"$package/stamp.h"
}

# fetch_wheels downloads the wheels of this set-up. A failure is only a warning, since
# planar tasks need none of them.
fetch_wheels() {
  rows wheel set name version file sha256 python platform keep | while IFS=$'\t' read -r set name version file sha python platform keep; do
    if [ "$set" != "$want" ] || wheel_here "$name" "$sha"; then continue; fi
    if [ "$(uname -sm)" != "Linux x86_64" ]; then
      warn "the pinned $name is for Linux on x86-64; tasks with physics and the GPU will not run here"
      continue
    fi
    unpack_wheel "$name" "$version" "$file" "$sha" "$python" "$platform" "$keep" </dev/null ||
      warn "$name $version could not be fetched; the planar tasks work without it (try again later)"
    rm -rf "$fetched/$name.part"
  done
}

# link_cuda writes to fetched/cuda the libraries that the GPU build links with.
link_cuda() {
  local runtime=$fetched/nvidia_cuda_runtime_cu12 nvrtc=$fetched/nvidia_cuda_nvrtc_cu12
  [ -d "$runtime" ] && [ -d "$nvrtc" ] || die "the wheels of the GPU build are missing (hint: try again later)"
  mkdir -p "$fetched/cuda"
  ln -sfn ../nvidia_cuda_nvrtc_cu12/libnvrtc.so.12 "$fetched/cuda/libnvrtc.so"
  [ "$fetched/cuda/libcuda.a" -nt "$here/libcuda.sh" ] || "$here/libcuda.sh" "$runtime/include" "$fetched/cuda"
}

lock=$here/peers.lock
peers_here() { cmp -s "$lock" "$fetched/peers/complete"; }

# new_venv creates the virtual environment $1. The lock file has the wheels of one version
# of Python on one system, so it rejects others.
new_venv() {
  local python=python3
  command -v python3.11 >/dev/null && python=python3.11
  [ "$(uname -sm)" = "Linux x86_64" ] && "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    die "peers.lock is for Python 3.11 on Linux x86-64, and this is $("$python" --version 2>&1) on $(uname -sm) (hint: put python3.11 on PATH; Debian 12 has it)"
  rm -rf "$1"
  "$python" -m venv "$1"
}

# fetch_peers installs exactly the packages of the lock file. Some of them are available only
# as source, so setuptools, which builds them, is locked too and installed first.
fetch_peers() {
  peers_here && return
  new_venv "$fetched/peers"
  local pip=("$fetched/peers/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes)
  "${pip[@]}" -r <(grep '^setuptools==' "$lock")
  "${pip[@]}" --no-build-isolation -r "$lock"
  cp "$lock" "$fetched/peers/complete"
}

# fetch_lerobot installs lerobot for the Python of the peers, in a separate folder: it needs
# another version of datasets than they do.
lerobot_lock=$here/lerobot.lock
lerobot_here() { cmp -s "$lerobot_lock" "$fetched/peers-lerobot/complete"; }
fetch_lerobot() {
  lerobot_here && return
  rm -rf "$fetched/peers-lerobot"
  "$fetched/peers/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --target "$fetched/peers-lerobot" -r "$lerobot_lock"
  cp "$lerobot_lock" "$fetched/peers-lerobot/complete"
}

# fetch_python installs the locked packages that the Python package and its tests import.
python_here() { [ -e "$fetched/python/complete" ] && cmp -s <(python_lock) "$fetched/python/complete"; }
python_lock() { grep -E '^(cloudpickle|gymnasium|h5py|numpy|typing_extensions)==' "$lock"; }
fetch_python() {
  python_here && return
  new_venv "$fetched/python"
  "$fetched/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r <(python_lock)
  python_lock >"$fetched/python/complete"
}

# lock_peers lets pip resolve the manifest's peers to packages, versions and files, and
# writes these to the lock file.
lock_peers() {
  local tmp=$fetched/lock-peers
  new_venv "$tmp"
  rows peer name version | while IFS=$'\t' read -r name version; do echo "$name==$version"; done >"$tmp/peers.txt"
  "$tmp/bin/python" -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --report "$tmp/report.json" -r "$tmp/peers.txt"
  {
    echo "# Made by third_party/setup.sh lock-peers from the peers of manifest.toml, for Python 3.11 on Linux x86-64."
    "$tmp/bin/python" -c 'import json, sys
for p in sorted(json.load(open(sys.argv[1]))["install"], key=lambda p: p["metadata"]["name"].lower()):
    print("%s==%s --hash=sha256:%s" % (p["metadata"]["name"], p["metadata"]["version"], p["download_info"]["archive_info"]["hashes"]["sha256"]))' "$tmp/report.json"
  } >"$lock.part"
  mv "$lock.part" "$lock"
  rm -rf "$tmp"
}

# announce prints what will be downloaded and where, or nothing if everything is present.
announce() {
  local plan
  plan=$(
    [ -z "$packages" ] || while IFS=$'\t' read -r name mb purpose; do
      printf '  %-32s %6s MB  to the system, by apt: %s\n' "$name" "$mb" "$purpose"
    done <<<"$packages"
    case $want in
    base | cuda)
      rows wheel set name version sha256 mb for | while IFS=$'\t' read -r set name version sha mb purpose; do
        [ "$set" != "$want" ] || wheel_here "$name" "$sha" ||
          printf '  %-32s %6s MB  to third_party/fetched/%s: %s\n' "$name $version" "$mb" "$name" "$purpose"
      done
      ;;&
    base)
      modules_here || printf '  %-32s %6s MB  to %s: the libraries of go.mod\n' "Go modules" 90 "$(go env GOMODCACHE)"
      ;;
    python)
      python_here || printf '  %-32s %6s MB  to third_party/fetched/python: %s\n' "Python packages" 25 "$(python_lock | cut -d= -f1 | paste -sd' ')"
      ;;
    peers)
      peers_here || printf '  %-32s %6s MB  to third_party/fetched/peers: %s\n' "Python packages" 4000 "the $(grep -c '^[^#]' "$lock") of third_party/peers.lock"
      lerobot_here || printf '  %-32s %6s MB  to third_party/fetched/peers-lerobot: %s\n' "Python packages" 45 "the $(grep -c '^[^#]' "$lerobot_lock") of third_party/lerobot.lock"
      ;;
    esac
  )
  [ -z "$plan" ] || printf 'set-up fetches:\n%s\n' "$plan"
}

case $want in
base | peers | python | browser | slurm | nfs | cuda) ;;
lock-peers) lock_peers; exit ;;
*) die "unknown part \"$want\" (hint: base, peers, python, browser, slurm, nfs, cuda or lock-peers)" ;;
esac
command -v dpkg-query >/dev/null || die "this script supports Debian and Ubuntu only (hint: install the [[apt]] packages of third_party/manifest.toml with your system's package manager, then run make build)"
packages=$(missing_packages)
names=$(cut -f1 <<<"$packages" | paste -sd' ')
if [ -n "$packages" ] && [ "$(id -u)" != 0 ]; then
  die "packages are missing; run: sudo apt-get install -y --no-install-recommends $names"
fi
command -v go >/dev/null || die "Go is not on PATH (hint: go.mod names the version; https://go.dev/dl has it)"

announce
if [ -n "$packages" ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  # shellcheck disable=SC2086 # $names is a list of words
  apt-get -qq install -y --no-install-recommends $names >/dev/null
fi
mkdir -p "$fetched"
case $want in
base)
  (cd "$here/.." && go list -deps -test ./... >/dev/null)
  fetch_wheels
  stamp_headers
  ;;
peers)
  fetch_peers
  fetch_lerobot
  ;;
python) fetch_python ;;
cuda)
  fetch_wheels
  link_cuda
  ;;
esac
