#!/bin/bash
# The common part of run_server.sh and run_client.sh: executes rdma_server or rdma_client.
#
#   launch.sh server [PORT] [FLAG]...
#   launch.sh client SERVER_IP [PORT] [FLAG]...
#
# Their --help describes the environment variables.
set -euo pipefail

role=$1
say() { echo "run_$role.sh: $*" >&2; }
die() { say "$*"; exit 1; }
repo=$(cd "$(dirname "$0")/.." && pwd -P)
shift

arguments=()
if [[ $role == client ]]; then
	arguments+=("$1")
	shift
fi
port=18515
if [[ ${1:-} =~ ^[0-9] ]]; then
	port=$1
	shift
fi

device=${RDMA_DEVICE:-}
if [[ -z $device ]]; then
	for dir in /sys/class/infiniband/*; do
		if [[ -e $dir ]]; then device=${dir##*/}; break; fi
	done
fi
if [[ -z $device ]]; then
	device=soft0
	say "this host has no RDMA device; using soft0, which reaches only this host; for rxe0: sudo scripts/setup_rxe.sh; to reach other hosts: RDMA_DEVICE=soft:eth0"
elif [[ $device != soft* && ! -e /sys/class/infiniband/$device ]]; then
	devices=$(cd /sys/class/infiniband 2>/dev/null && echo '' *) || devices=''
	die "no device $device; this host has: soft0$devices; try: RDMA_DEVICE=soft0, or sudo scripts/setup_rxe.sh"
elif [[ $device != soft* ]]; then
	# The kernel locks registered memory. Root may lock any amount.
	limit=$(ulimit -l)
	if ((EUID != 0)) && [[ $limit != unlimited ]] && ((limit < 1024)); then
		say "the limit of locked memory is only $limit KiB; if registration fails: ulimit -l unlimited as root (docs/setup.md)"
	fi
fi
arguments+=("$device" "$port" ${RDMA_GID_INDEX:+"$RDMA_GID_INDEX"})

program=$repo/rdma_$role
if [[ ! -x $program ]]; then
	say "building $program"
	make -C "$repo" all >&2 || die "the build failed; try: make -C $repo, and read its output"
fi

log=${RDMA_LOG:-}
if [[ -z $log ]]; then
	log=$repo/out/log/$role-$(date +%Y%m%d-%H%M%S)-$$.log
	mkdir -p "$repo/out/log" || die "cannot create out/log in the repository; try: RDMA_LOG=FILE"
fi
# exec: signals reach the program, and its exit status is that of this script. tee ignores
# Ctrl-C and ends when the program does.
if [[ $log != /dev/null ]]; then
	{ : >>"$log"; } 2>/dev/null || die "cannot write $log; try: RDMA_LOG=FILE, or RDMA_LOG=/dev/null"
	say "log: $log"
	exec > >(exec tee -i -a "$log") 2> >(exec tee -i -a "$log" >&2)
fi
exec "$program" "$@" "${arguments[@]}"
