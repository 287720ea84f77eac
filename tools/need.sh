#!/bin/bash
# Prints the line that installs what is missing of these sets of packages, and fails if anything is:
#
#   tools/need.sh SET...
#   tools/need.sh --install SET...   installs it with apt-get
#   tools/need.sh cgo                prints the CGO_ENABLED to build with: 0 if a package of "build" is missing
set -euo pipefail
die() { echo "$*" >&2; exit 1; }

# PACKAGE=PROBE: a program or a header. Without a probe it is the program PACKAGE, or the package is installed.
declare -A sets=(
	[build]="gcc=${CC:-gcc} libc6-dev=stdlib.h libibverbs-dev=infiniband/verbs.h"
	[lint]=shellcheck
	[vm]="qemu-system-x86=qemu-system-x86_64 busybox-static cpio kmod xz-utils=xz zstd iproute2 rdma-core ibverbs-providers nftables
		ibverbs-utils=ibv_devinfo perftest=ib_write_bw tcpdump tshark"
	[c]="ibverbs-utils=ibv_devinfo perftest=ib_write_bw python3-pyverbs ucx-utils=ucx_info libfabric-bin=fi_info libfabric-dev=rdma/fabric.h"
	[count]="perftest=ib_write_bw valgrind"
	[arm64]="gcc-aarch64-linux-gnu=aarch64-linux-gnu-gcc libc6-dev-arm64-cross qemu-user-static=qemu-aarch64-static iproute2"
	[ops]="prometheus systemd=systemd-analyze git"
	[node]="nodejs=node"
	[web]="nodejs=node npm chromium fonts-dejavu-core fonts-noto-cjk"
	[fresh]="mmdebstrap git"
)
there() { # there PACKAGE PROBE
	case $2 in
	*.h) [[ -e /usr/include/$2 ]] || "${CC:-gcc}" -E -x c - <<<"#include <$2>" ;;
	*) command -v "$2" || [[ $1 == "$2" && -e /usr/share/doc/$1 ]] ;;
	esac >/dev/null 2>&1
}
missing() { # missing SET...
	local entry set
	for set; do
		for entry in ${sets[$set]?"no such set of packages"}; do there "${entry%=*}" "${entry#*=}" || echo "${entry%=*}"; done
	done | sort -u | paste -sd ' '
}

command -v go >/dev/null || die "needs Go 1.26 or later; get it: https://go.dev/dl"
if [[ $1 == cgo ]]; then
	packages=$(missing build)
	[[ -z $packages ]] || echo "building without cgo, so without RDMA devices and tests of C code; missing: $packages" >&2
	exec echo $((${#packages} == 0))
fi
install=
if [[ $1 == --install ]]; then install=1; shift; fi
packages=$(missing "$@")
[[ -n $packages ]] || exit 0
line="apt-get install -y --no-install-recommends $packages"
if ((EUID)); then line="sudo $line"; fi
[[ -n $install ]] || die "needs packages; try: $line    (make setup installs all that make test needs)"

command -v apt-get >/dev/null || die "no apt-get here; use a container of Debian (CONTRIBUTING.md), or install by hand: $packages"
echo "$line" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
as_root=${line%%apt-get*}
# shellcheck disable=SC2086 # many packages, and sudo or nothing
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=-1 $1 </dev/null >"$log" 2>&1; }
# The lists may be missing, as in fresh images, or old.
install="install -y --no-install-recommends $packages"
apt "$install" || { apt update && apt "$install"; } || { tail -n 20 "$log" >&2; die "apt-get failed; try: $line"; }
