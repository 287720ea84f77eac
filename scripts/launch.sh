#!/bin/bash
# What run_server.sh and run_client.sh do: becomes rdma_server or rdma_client.
#
#   launch.sh server [PORT] [FLAG]...
#   launch.sh client SERVER_IP [PORT] [FLAG]...
#
# Their --help tells of the environment's variables.
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
	say "no RDMA device here, so soft0, which reaches this host alone; for rxe0: sudo scripts/setup_rxe.sh; for other hosts: RDMA_DEVICE=soft:eth0"
elif [[ $device != soft* && ! -e /sys/class/infiniband/$device ]]; then
	devices=$(cd /sys/class/infiniband 2>/dev/null && echo '' *) || devices=''
	die "no device $device; there are: soft0$devices; try: RDMA_DEVICE=soft0, or sudo scripts/setup_rxe.sh"
elif [[ $device != soft* ]]; then
	# Registered memory is locked; root may lock any amount.
	limit=$(ulimit -l)
	if ((EUID != 0)) && [[ $limit != unlimited ]] && ((limit < 1024)); then
		say "only $limit KiB of memory may be locked here; if registering fails: ulimit -l unlimited as root (docs/setup.md)"
	fi
fi
arguments+=("$device" "$port" ${RDMA_GID_INDEX:+"$RDMA_GID_INDEX"})

program=$repo/rdma_$role
if [[ ! -x $program ]]; then
	say "no $program: building it"
	make -C "$repo" all >&2 || die "cannot build; try: make -C $repo, and read what it says"
fi

log=${RDMA_LOG:-}
if [[ -z $log ]]; then
	log=$repo/out/log/$role-$(date +%Y%m%d-%H%M%S)-$$.log
	mkdir -p "$repo/out/log" || die "no folder out/log in the repository; try: RDMA_LOG=FILE"
fi
# The program takes this process's place, so that signals reach it and its exit
# status is ours. tee ignores Ctrl-C, and ends when the program does.
if [[ $log != /dev/null ]]; then
	{ : >>"$log"; } 2>/dev/null || die "cannot write $log; try: RDMA_LOG=FILE, or RDMA_LOG=/dev/null"
	say "log: $log"
	exec > >(exec tee -i -a "$log") 2> >(exec tee -i -a "$log" >&2)
fi
exec "$program" "$@" "${arguments[@]}"
