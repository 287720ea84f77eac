#!/bin/bash
# Makes sure that what a target needs is there, and installs it with apt-get
# where it is not, saying so first:
#
#   tools/need.sh build    Go, a C compiler, libibverbs
#   tools/need.sh lint     the above, shellcheck
#   tools/need.sh vm       the above but shellcheck, and the machine's packages
#   tools/need.sh fresh    what makes a pristine root: test/fresh
#   tools/need.sh cgo      installs nothing: prints 1, the CGO_ENABLED to build with, or 0
#                          where something of "build" but Go is missing, and says so
#
# Takes a few milliseconds when all is there. Fails, in one line, when it cannot
# provide something.
set -euo pipefail

die() { echo "$*" >&2; exit 1; }
what=${1:-}

command -v go >/dev/null || die "needs Go 1.26 or later; get it: https://go.dev/dl (or apt-get install golang-go where that is new enough)"

missing=()
need() { # need PACKAGE COMMAND...: the command succeeds if the package is there
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}
header() {
	local dir
	for dir in ${C_INCLUDE_PATH//:/ } ${CPATH//:/ } /usr/include /usr/local/include; do
		[[ ! -e $dir/$1 ]] || return 0
	done
	return 1
}
: "${C_INCLUDE_PATH:=}" "${CPATH:=}"
case $what in
build | lint | vm | cgo)
	need gcc command -v "${CC:-gcc}"
	need libc6-dev header stdlib.h
	need libibverbs-dev header infiniband/verbs.h
	;;&
lint) need shellcheck command -v shellcheck ;;
fresh)
	need mmdebstrap command -v mmdebstrap
	need git command -v git
	;;
build | vm | cgo) ;;
*) die "usage: need.sh build|lint|vm|fresh|cgo" ;;
esac

if [[ $what == cgo ]]; then
	if ((${#missing[@]})); then
		echo "building without cgo, so without RDMA devices, since these packages are missing: ${missing[*]}" >&2
		echo 0
	else
		echo 1
	fi
	exit
fi
if ((${#missing[@]})); then
	by_hand="install by hand: ${missing[*]} (Fedora has libibverbs-dev as rdma-core-devel)"
	command -v apt-get >/dev/null || die "no apt-get here; $by_hand"
	as_root=()
	if ((EUID != 0)); then
		command -v sudo >/dev/null || die "not root, and no sudo; $by_hand"
		as_root=(sudo)
	fi
	echo "installing with apt-get: ${missing[*]}" >&2
	apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" </dev/null >&2; }
	install() { apt install -y --no-install-recommends "${missing[@]}"; }
	# The package lists may be absent (fresh images) or stale: then refresh, once.
	install || { apt update && install; } || die "apt-get could not install; $by_hand"
fi
if [[ $what == vm ]]; then exec "$(dirname "$0")/../test/vm/install.sh"; fi
