#!/bin/bash
# Checks that the programs of a make target are installed, and installs missing ones with
# apt-get. It prints the names of the packages first.
#
#   tools/need.sh build    Go, a C compiler, libibverbs
#   tools/need.sh lint     the same and shellcheck
#   tools/need.sh vm       the same without shellcheck, and the packages of the machine
#   tools/need.sh c        as build, and the programs that test/cabi runs
#   tools/need.sh count    as build, perftest and valgrind
#   tools/need.sh arm64    as build, and a compiler and an emulator for arm64
#   tools/need.sh node     Go and node
#   tools/need.sh web      the same, npm, Chromium, and fonts with Chinese characters
#   tools/need.sh ops      Go, Prometheus, systemd-analyze and git
#   tools/need.sh pictures the same, and pngquant
#   tools/need.sh fresh    the programs that make a pristine root: test/fresh
#   tools/need.sh cgo      installs nothing; prints the CGO_ENABLED to build with: 1, or 0
#                          if a package of "build" is missing, which it names on stderr
#
# It takes a few milliseconds if nothing is missing. It fails with one line if it cannot
# install something.
set -euo pipefail

die() { echo "$*" >&2; exit 1; }
what=${1:-}

command -v go >/dev/null || die "needs Go 1.26 or later; get it: https://go.dev/dl (or apt-get install golang-go, if that is new enough)"

missing=()
need() { # need PACKAGE COMMAND...: COMMAND succeeds if PACKAGE is installed
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
build | lint | vm | c | count | arm64 | cgo)
	need gcc command -v "${CC:-gcc}"
	need libc6-dev header stdlib.h
	need libibverbs-dev header infiniband/verbs.h
	;;&
lint) need shellcheck command -v shellcheck ;;
c)
	need ibverbs-utils command -v ibv_rc_pingpong
	need perftest command -v ib_write_bw
	need python3-pyverbs test -d /usr/lib/python3/dist-packages/pyverbs
	need ucx-utils command -v ucx_perftest
	need libfabric-bin command -v fi_info
	need libfabric-dev header rdma/fabric.h
	;;
count)
	need perftest command -v ib_write_bw
	need valgrind command -v valgrind
	;;
arm64)
	need gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
	need libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdlib.h
	need qemu-user-static command -v qemu-aarch64-static
	need iproute2 command -v ss
	;;
ops)
	need prometheus command -v prometheus
	need systemd command -v systemd-analyze
	need git command -v git
	;;
node | web | pictures) need nodejs command -v node ;;&
web | pictures)
	need npm command -v npm
	need chromium command -v chromium
	need fonts-dejavu-core test -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
	need fonts-noto-cjk test -e /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc
	;;&
pictures) need pngquant command -v pngquant ;;
fresh)
	need mmdebstrap command -v mmdebstrap
	need git command -v git
	;;
build | vm | cgo | node | web) ;;
*) die "usage: need.sh build|lint|vm|c|arm64|node|web|pictures|ops|fresh|cgo" ;;
esac

if [[ $what == cgo ]]; then
	if ((${#missing[@]})); then
		echo "building without cgo, so without RDMA devices and the tests of C code, because these packages are missing: ${missing[*]}" >&2
		echo 0
	else
		echo 1
	fi
	exit
fi
if ((${#missing[@]})); then
	"$(dirname "$0")/install.sh" "${missing[@]}"
fi
if [[ $what == vm ]]; then exec "$(dirname "$0")/../test/vm/install.sh"; fi
