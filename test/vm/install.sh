#!/bin/bash
# Installs the packages for the test machine, the C peers and the captures, on Debian or
# Ubuntu. Takes a few milliseconds if all are installed. Does not install Go.
set -euo pipefail

packages=(
	qemu-system-x86 busybox-static cpio kmod xz-utils zstd # the machine
	iproute2 rdma-core ibverbs-providers nftables          # rxe0 inside it, and a firewall
	libibverbs-dev ibverbs-utils perftest                  # headers and C peers
	tcpdump tshark                                         # captures
)

die() { echo "vm: $*" >&2; exit 1; }

command -v dpkg-query >/dev/null || die "needs Debian or Ubuntu; on other systems install by hand: ${packages[*]}"

missing=()
declare -A have=()
while read -r name status; do
	[[ $status == installed ]] && have[$name]=1
done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null)
for p in "${packages[@]}"; do
	[[ -n ${have[$p]:-} ]] || missing+=("$p")
done
if ((${#missing[@]})); then "$(dirname "$0")/../../tools/install.sh" "${missing[@]}"; fi
