#!/bin/bash
# Says which packages of these sets are missing, and the line that installs them, and fails if there are any:
#
#   tools/need.sh SET...
#   tools/need.sh --install SET...   installs them with apt-get; only make setup, test and fresh do that
#   tools/need.sh cgo                prints the CGO_ENABLED to build with: 0 if a package of "build" is missing
set -euo pipefail
die() { echo "$*" >&2; exit 1; }

# PACKAGE=PROBE: a program, or a header. Without a probe it is the program PACKAGE, or the package is Debian's.
declare -A sets=(
	[build]="gcc=${CC:-gcc} libc6-dev=stdlib.h libibverbs-dev=infiniband/verbs.h"
	[lint]="shellcheck"
	[vm]="qemu-system-x86=qemu-system-x86_64 busybox-static cpio kmod xz-utils=xz zstd iproute2 rdma-core ibverbs-providers
		nftables ibverbs-utils=ibv_devinfo perftest=ib_write_bw tcpdump tshark"
	[c]="ibverbs-utils=ibv_devinfo perftest=ib_write_bw python3-pyverbs ucx-utils=ucx_perftest libfabric-bin=fi_info
		libfabric-dev=rdma/fabric.h"
	[count]="perftest=ib_write_bw valgrind"
	[arm64]="gcc-aarch64-linux-gnu=aarch64-linux-gnu-gcc libc6-dev-arm64-cross qemu-user-static=qemu-aarch64-static iproute2"
	[ops]="prometheus systemd=systemd-analyze git"
	[node]="nodejs=node"
	[web]="nodejs=node npm chromium fonts-dejavu-core fonts-noto-cjk"
	[pictures]="pngquant"
	[fresh]="mmdebstrap git"
)
there() { # there PACKAGE PROBE
	if [[ $2 == *.h ]]; then
		[[ -e /usr/include/$2 ]] || "${CC:-gcc}" -E -x c - <<<"#include <$2>"
	else
		command -v "$2" || [[ -e /usr/share/doc/$1 ]]
	fi >/dev/null 2>&1
}
missing() { # prints the missing packages of sets
	local entry set
	for set; do
		for entry in ${sets[$set]?"no such set; there are: ${!sets[*]}"}; do
			there "${entry%=*}" "${entry#*=}" || echo "${entry%=*}"
		done
	done | sort -u | paste -sd ' '
}

command -v go >/dev/null || die "needs Go 1.26 or later; get it: https://go.dev/dl"
if [[ ${1:-} == cgo ]]; then
	packages=$(missing build)
	if [[ -n $packages ]]; then
		echo "building without cgo, so without RDMA devices and the tests of C code, because these packages are missing: $packages" >&2
		echo 0
	else
		echo 1
	fi
	exit
fi

if [[ ${1:-} == --install ]]; then install=1; shift; else install=; fi
packages=$(missing "$@")
[[ -n $packages ]] || exit 0
as_root=()
if ((EUID)); then as_root=(sudo); fi
line="${as_root[*]} apt-get install -y --no-install-recommends $packages" line=${line# }
[[ -n $install ]] || die "needs packages; try: $line    (or, for all that make test needs: make setup)"
command -v apt-get >/dev/null ||
	die "no apt-get here; install by hand: $packages (Fedora has libibverbs-dev as rdma-core-devel)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=-1 "$@" </dev/null >"$log" 2>&1; }
echo "$line" >&2
# The lists may be missing, as in fresh images, or old.
read -ra packages <<<"$packages"
try() { apt install -y --no-install-recommends "${packages[@]}"; }
try || { apt update && try; } || { tail -n 20 "$log" >&2; die "apt-get failed; try: $line"; }
