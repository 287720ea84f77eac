#!/bin/bash
# Runs Debian's arm64 programs on the software device in qemu's user mode, with the libraries in
# out/arm64, which `make test-c-arm64` builds.
#
# The arm64 packages are unpacked into a cache. dpkg and apt of this machine do not change.
set -euo pipefail
cd "$(dirname "$0")/../../.."
die() { echo "arm64: $*" >&2; exit 1; }

packages=(ibverbs-utils libibverbs1 libc6 libgcc-s1 libnl-3-200 libnl-route-3-200)
root=${XDG_CACHE_HOME:-$HOME/.cache}/rawverbs/arm64
out=$PWD/out/arm64

unpack() { # unpack DIRECTORY: downloads the packages with an apt state of its own
	local state
	state=$(mktemp -d "${TMPDIR:-/tmp}/arm64.XXXXXX")
	# shellcheck disable=SC2064 # expanded now: state is local
	trap "rm -rf '$state'" EXIT
	mkdir -p "$state"/{lists,cache/archives}/partial "$state/debs" "$1"
	: >"$state/status"
	local options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= -o Dir::State="$state"
		-o Dir::State::status="$state/status" -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache")
	apt-get "${options[@]}" update >&2
	(cd "$state/debs" && apt-get "${options[@]}" download "${packages[@]}" >&2) ||
		die "the package sources of this machine have no arm64 packages; try: Debian"
	local package
	for package in "$state"/debs/*.deb; do dpkg -x "$package" "$1"; done
}
if [[ ! -d $root ]]; then
	unpack "$root.new"
	mv "$root.new" "$root"
fi

soft() { # soft PROGRAM ARGUMENT...
	local program=$1
	shift
	timeout 300 qemu-aarch64-static -L "$root" -E LD_PRELOAD="$out/librawverbs.so" -E RAWVERBS_CORE="$out/librawverbs-core.so" \
		-E RAWVERBS_DEVICE=soft0 "$root/usr/bin/$program" "$@"
}
check() {
	ip link set lo up
	soft ibv_devinfo -d soft0 | grep PORT_ACTIVE
	local flags
	for flags in "" "-e" "-c"; do
		# shellcheck disable=SC2086 # one word or none
		soft ibv_rc_pingpong -g 1 -n 200 $flags >"$out/server.log" &
		local server=$! i
		for ((i = 0; i < 600; i++)); do
			if [[ $(ss -Hltn 'sport = :18515') ]]; then break; fi
			sleep 0.1
		done
		# shellcheck disable=SC2086
		soft ibv_rc_pingpong -g 1 -n 200 $flags 127.0.0.1 | grep '^200 iters'
		wait "$server"
	done
	echo "arm64: all passed"
}
export -f soft check
export root out
new=(unshare --net)
((EUID == 0)) || new=(unshare --map-root-user --net)
"${new[@]}" bash -euo pipefail -c check
