#!/bin/bash
# Installs what the test machine, the C peers and the captures need, on Debian
# or Ubuntu. Does nothing, in a few milliseconds, when all of it is there.
# Go itself is taken to be present.
set -euo pipefail

packages=(
	qemu-system-x86 busybox-static cpio kmod xz-utils zstd # the machine
	iproute2 rdma-core ibverbs-providers                   # rxe0 inside it
	libibverbs-dev ibverbs-utils perftest                  # to build on, and C peers
	tcpdump tshark                                         # captures
)

die() { echo "vm: $*" >&2; exit 1; }

command -v dpkg-query >/dev/null || die "needs Debian or Ubuntu; elsewhere install by hand: ${packages[*]}"

missing=()
declare -A have=()
while read -r name status; do
	[[ $status == installed ]] && have[$name]=1
done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null)
for p in "${packages[@]}"; do
	[[ -n ${have[$p]:-} ]] || missing+=("$p")
done
((${#missing[@]})) || exit 0

echo "vm: installing with apt-get: ${missing[*]}" >&2
as_root=()
if ((EUID != 0)); then
	command -v sudo >/dev/null || die "not root and no sudo: install these first: ${missing[*]}"
	as_root=(sudo)
fi
# All output to stderr: stdout belongs to the command run in the machine.
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" </dev/null >&2; }
install() { apt install -y --no-install-recommends "${missing[@]}"; }
# The package lists may be absent (fresh images) or stale: then refresh, once.
install || { apt update && install; } || die "apt-get could not install: ${missing[*]}"
