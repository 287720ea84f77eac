#!/bin/bash
# Installs packages with apt-get, on Debian and Ubuntu:
#
#   tools/install.sh PACKAGE...
#
# It prints one line. The output of apt-get appears only if it fails.
set -euo pipefail

by_hand="install by hand: $* (Fedora has libibverbs-dev as rdma-core-devel)"
die() { echo "$*; $by_hand" >&2; exit 1; }

command -v apt-get >/dev/null || die "no apt-get here"
as_root=()
if ((EUID != 0)); then
	command -v sudo >/dev/null || die "not root, and no sudo"
	as_root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Targets run beside each other, and apt-get does not wait for the locks of another one. kernel.sh takes the same lock.
exec 8>>"${TMPDIR:-/tmp}/rawverbs-apt-$UID.lock"
flock 8
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=-1 "$@" </dev/null >"$log" 2>&1 8>&-; }
install() { apt install -y --no-install-recommends "$@"; }

echo "installing with apt-get: $*" >&2
# The package lists may be missing (in fresh images) or stale. Refresh them once.
install "$@" || { apt update && install "$@"; } || { tail -n 20 "$log" >&2; die "apt-get failed"; }
