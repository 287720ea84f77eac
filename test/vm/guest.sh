#!/bin/bash
# Process 1 of the machine, after init has mounted the host's root. It sets up the network
# and rxe0, runs the command and writes its exit status to /run/vm/status. vm_role, from the
# kernel command line, selects the network.
set -uo pipefail # no -e: process 1 must reach its end

ctl=/run/vm
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

fail() { echo "vm-guest: $*" >/dev/console; echo "$*" >"$ctl/failed"; power_off; }
# With reboot=t and QEMU's -no-reboot this is the fastest way to end the machine.
power_off() { echo b >/proc/sysrq-trigger; sleep 60; }

# network_solo sets up two hosts in one machine: the initial network namespace, with rxe0,
# and the namespace `peer`. It starts few programs, because each takes 0.1 s.
network_solo() {
	echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
	echo 1 >/proc/sys/net/core/devconf_inherit_init_net # in `peer` too
	ip -batch - <<-END || fail "cannot make veth0"
		link set lo up
		netns add peer
		link add veth0 type veth peer name veth1 netns peer
		address add 10.99.0.1/24 dev veth0
		address add fd99::1/64 dev veth0 nodad
		link set veth0 up
	END
	ip -n peer -batch - <<-END || fail "cannot make veth1"
		link set lo up
		address add 10.99.0.2/24 dev veth1
		address add fd99::2/64 dev veth1 nodad
		link set veth1 up
	END
	rdma link add rxe0 type rxe netdev veth0 || fail "rdma link add rxe0 failed"
	wait_gids rxe0 fe80: 0000:0000:0000:0000:0000:ffff:0a63:0001
}

# network_wire NAME N sets up one end of the wire to another machine.
network_wire() {
	echo "$1" >/proc/sys/kernel/hostname
	ip -batch - <<-END || fail "cannot set up eth0"
		link set lo up
		address add 10.0.0.$2/24 dev eth0
		address add fd10::$2/64 dev eth0 nodad
		link set eth0 up
	END
	rdma link add rxe0 type rxe netdev eth0 || fail "rdma link add rxe0 failed"
	wait_gids rxe0 fe80: "0000:0000:0000:0000:0000:ffff:0a00:000$2"
}

# wait_gids DEVICE PREFIX... waits until GID 0, 1, … begin with the prefixes.
wait_gids() {
	local dev=$1 want got i tries
	shift
	for ((tries = 0; tries < 600; tries++)); do # a minute or more
		i=0
		for want; do
			read -r got <"/sys/class/infiniband/$dev/ports/1/gids/$i" || got=
			[[ $got == "$want"* ]] || break
			((++i))
		done
		((i == $#)) && return
		sleep 0.05
	done
	fail "GID $i of $dev is ${got:-absent}, not $want…"
}

# run_command runs the command. Its output goes through pipes, so that the command can open
# /dev/stdout again, into files of the control directory. The host follows these files.
run_command() {
	local cmd out err=0 pid
	cmd=$(<"$ctl/cmd")
	exec {o}> >(exec cat >"$ctl/stdout")
	out=$!
	if [[ -e $ctl/stderr ]]; then
		exec {e}> >(exec cat >"$ctl/stderr")
		err=$!
	else
		exec {e}>&"$o" # one stream on the host: keep its order
	fi
	# shellcheck disable=SC2154  # o and e are set by exec
	bash -c "$cmd" </dev/null >&"$o" 2>&"$e" {o}>&- {e}>&-
	status=$?
	# Processes that the command left running would keep the pipes open.
	for pid in /proc/[0-9]*; do
		pid=${pid#/proc/}
		((pid == 1 || pid == out || pid == err)) || kill -KILL "$pid" 2>/dev/null
	done
	exec {o}>&- {e}>&-
	wait "$out"
	((err)) && wait "$err"
}

run_shell() {
	# shellcheck disable=SC2016 # the inner bash expands it
	setsid --ctty --wait bash -c 'stty rows "$1" cols "$2"; exec bash -i' - \
		"${tty_size% *}" "${tty_size#* }" <>/dev/ttyS1 >&0 2>&1
	status=$?
}

echo vm >/proc/sys/kernel/hostname
ulimit -l unlimited
repo='' tty_size='' # set by paths
# shellcheck source=/dev/null
source "$ctl/paths"
case ${vm_role:-solo} in
solo) network_solo ;;
server) network_wire server 1 ;; # lab.sh
client) network_wire client 2 ;;
*) fail "unknown vm_role=$vm_role" ;;
esac
cd "$repo" || fail "no $repo in the machine"
: >"$ctl/booted"
# shellcheck source=/dev/null
source "$ctl/env"
PATH+=:/usr/local/sbin:/usr/sbin:/sbin # the command runs as root, the caller may not
status=1
if [[ -e $ctl/cmd ]]; then run_command; else run_shell; fi
echo "$status" >"$ctl/status.new"
mv "$ctl/status.new" "$ctl/status"
power_off
