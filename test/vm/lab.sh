#!/bin/bash
# Boots two virtual machines, each with its own rxe0, joined by a virtual wire. It runs one
# command in each, prints the output of both at once, and captures the wire:
#
#   test/vm/lab.sh
#
# Environment variables select the commands (`make lab JOB=…` sets them):
#
#   LAB_JOB, LAB_SERVER_ARGS, LAB_CLIENT_ARGS   for rdma_server and rdma_client
#   LAB_SERVER, LAB_CLIENT                      or any other pair of commands
#
# The server is 10.0.0.1, the client 10.0.0.2. The exit status is 0 if that of both commands
# is 0. wire.pcap goes to VM_OUT (default: out/lab), which has the same path in the machines.
# See README.md.
set -euo pipefail

say() { echo "lab: $*" >&2; }
die() { say "$@"; exit 1; }
here=$(cd "$(dirname "$0")" && pwd -P)
repo=$(dirname "$(dirname "$here")")

# The options of the programs, with a space after each.
server_args=${LAB_SERVER_ARGS:+$LAB_SERVER_ARGS } client_args=${LAB_CLIENT_ARGS:+$LAB_CLIENT_ARGS }
if [[ -n ${LAB_JOB:-} ]]; then printf -v client_args -- '--job %q %s' "$LAB_JOB" "$client_args"; fi
server_cmd=${LAB_SERVER:-"./rdma_server --once ${server_args}rxe0 18515 1"}
client_cmd=${LAB_CLIENT:-"./rdma_client ${client_args}10.0.0.1 rxe0 18515 1"}
if [[ -n ${LAB_SERVER:-} && -z ${LAB_CLIENT:-} || -z ${LAB_SERVER:-} && -n ${LAB_CLIENT:-} ]]; then
	die "SERVER and CLIENT need each other; try: make lab SERVER='ib_write_bw -x 1' CLIENT='ib_write_bw -x 1 10.0.0.1'"
fi

export VM_OUT=${VM_OUT:-$repo/out/lab} VM_TIMEOUT=${VM_TIMEOUT:-300}
export VM_SMP=${VM_SMP:-1} VM_MEM=${VM_MEM:-1G}
mkdir -p "$VM_OUT" || die "cannot create $VM_OUT for the capture; try: VM_OUT=FOLDER"
VM_OUT=$(cd "$VM_OUT" && pwd -P)
exec 9<"$VM_OUT"
flock -n 9 || die "another lab writes to $VM_OUT; try: VM_OUT=ANOTHER_FOLDER make lab"
pcap=$VM_OUT/wire.pcap
marks=("$VM_OUT"/{server,client}-ended "$VM_OUT"/server-listens)

server='' client=''
# shellcheck disable=SC2317 # called by the trap
clean_up() {
	trap '' INT TERM HUP
	local pid
	for pid in $server $client; do kill "$pid" 2>/dev/null || true; done
	for pid in $server $client; do wait "$pid" || true; done
	rm -rf "${marks[@]}" "$wire"
}
wire=$(mktemp -d /tmp/rawverbs-wire.XXXXXX) # a socket's path must be short
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Prepare once, before both machines do it at the same time.
"$repo/tools/need.sh" vm
"$here/kernel.sh" >/dev/null
[[ $(qemu-system-x86_64 -netdev help 2>/dev/null) == *dgram* ]] || die "this QEMU cannot join two machines by datagrams; try: QEMU 7.2 or newer"

# machine NAME N OTHER [QEMU_ARGUMENT]... boots a machine with one end of the wire to the OTHER and sets
# pid. Its output goes through sed; the script waits for the seds (prefixers) at the end.
#
# The wire is a pair of datagram sockets. On a TCP connection Nagle's algorithm would hold back a short
# packet, such as an ACK, for 40 ms.
prefixers=()
machine() {
	local name=$1 n=$2 other=$3 cmd
	shift 3
	printf -v cmd 'test/vm/side.sh %s %q' "$name" "$(if [[ $name == server ]]; then echo "$server_cmd"; else echo "$client_cmd"; fi)"
	exec {o}> >(exec sed -u "s/^/on the $name: /" 9>&-)
	prefixers+=($!)
	# shellcheck disable=SC2154 # o is set by exec
	setpriv --pdeathsig TERM "$here/run.sh" "$cmd" "$name" \
		-netdev "dgram,id=wire,local.type=unix,local.path=$wire/$name,remote.type=unix,remote.path=$wire/$other" \
		-device "virtio-net-pci,netdev=wire,mac=52:54:00:00:00:0$n" "$@" >&"$o" 2>&1 {o}>&- 9>&- &
	pid=$!
	exec {o}>&-
}

rm -f "${marks[@]}" "$pcap"
say "booting two machines; the wire is captured in ${pcap#"$repo"/}"
machine server 1 client -object "filter-dump,id=dump,netdev=wire,file=${pcap//,/,,}"
server=$pid
for ((i = 0; i < 600; i++)); do # the first run tests KVM before
	if [[ -S $wire/server ]] || ! kill -0 "$server" 2>/dev/null; then break; fi
	sleep 0.1
done
if kill -0 "$server" 2>/dev/null; then
	machine client 2 server
	client=$pid
fi

# ended PID SECONDS succeeds if the process ends within that time, and sets $status.
ended() {
	local i
	for ((i = 0; i < 10 * $2; i++)); do
		if ! kill -0 "$1" 2>/dev/null; then break; fi
		sleep 0.1
	done
	if kill -0 "$1" 2>/dev/null; then return 1; fi
	status=0
	wait "$1" || status=$?
}
of_machine() { ((status == 124 || status == 125)); }

# side.sh ends both commands within a minute of each other, unless a machine fails.
first='' status=0
# shellcheck disable=SC2086 # client may be absent
wait -n -p first $server $client || status=$?
if [[ $first == "$server" ]]; then name=server other=client left=$client; else name=client other=server left=$server; fi
declare -A result=([$name]=$status)
patience=150
if of_machine; then
	patience=0
	if [[ -n $left ]]; then say "the $name's machine failed: stopping the $other's machine"; fi
fi
if [[ -z $left ]]; then
	result[$other]='none (not booted)'
else
	if ! ended "$left" $patience; then
		kill "$left"
		ended "$left" 30 || say "the $other's machine does not end"
	fi
	result[$other]=$status
fi
server='' client=''
wait "${prefixers[@]}" || true

if [[ -s $pcap ]] && command -v tshark >/dev/null; then
	"$repo/scripts/capture.sh" --read "$pcap" --count "${LAB_PACKETS:-60}" || say "cannot decode $pcap"
fi
echo "lab: exit status: server ${result[server]}, client ${result[client]}"
for status in "${result[server]}" "${result[client]}"; do
	case $status in 0) ;; *[!0-9]*) exit 1 ;; *) exit "$status" ;; esac
done
