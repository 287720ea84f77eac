#!/bin/bash
# Makes the captures of this directory anew, inside a machine that is thrown
# away afterwards; see README.md. As root there:
#
#   capture.sh OUTDIR
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=$1
say() { echo "capture: $*" >&2; }

# Two rxe devices on the two ends of one veth, both in the init namespace, where
# rxe must be. Three things make their packets cross the veth: a route that
# serves only what names its device (rxe does), before the table of local
# addresses; a source that may be one of ours; and neighbours set by hand.
network() {
	ip link add cap0 type veth peer name cap1
	local i
	for i in 0 1; do
		sysctl -qw net.ipv4.conf.cap$i.accept_local=1 net.ipv4.conf.cap$i.rp_filter=0 \
			net.ipv6.conf.cap$i.accept_dad=0 net.ipv6.conf.cap$i.disable_ipv6=0
		ip link set cap$i up
		ip address add 10.98.0.$((i + 1))/24 dev cap$i
		ip address add fd98::$((i + 1))/64 dev cap$i nodad
		ip route add 10.98.0.0/24 dev cap$i table $((100 + i))
		ip -6 route add fd98::/64 dev cap$i table $((100 + i))
		ip rule add pref $((10 + i)) oif cap$i lookup $((100 + i))
		ip -6 rule add pref $((10 + i)) oif cap$i lookup $((100 + i))
	done
	sysctl -qw net.ipv4.conf.all.rp_filter=0
	for i in -4 -6; do
		ip $i rule add pref 20 lookup local
		ip $i rule del pref 0
	done
	local mac0 mac1
	mac0=$(</sys/class/net/cap0/address) mac1=$(</sys/class/net/cap1/address)
	for i in 10.98.0. fd98::; do
		ip neighbour replace ${i}2 lladdr "$mac1" dev cap0 nud permanent
		ip neighbour replace ${i}1 lladdr "$mac0" dev cap1 nud permanent
	done
	rdma link add rcap0 type rxe netdev cap0
	rdma link add rcap1 type rxe netdev cap1
}

gid_index() { # gid_index DEVICE GID
	local f
	for _ in {1..100}; do
		for f in /sys/class/infiniband/"$1"/ports/1/gids/*; do
			if [[ $(<"$f") == "$2" ]]; then basename "$f"; return; fi
		done 2>/dev/null
		sleep 0.05
	done
	say "no GID $2 on $1"
	exit 1
}

# capture NAME COMMAND...: what crosses the veth on port 4791 while it runs.
capture() {
	local name=$1 dump
	shift
	say "$name: $*"
	tcpdump -i cap0 -s 0 -U --immediate-mode -w "$out/$name.pcap" udp port 4791 2>"$out/tcpdump.log" &
	dump=$!
	until grep -q 'listening on' "$out/tcpdump.log"; do sleep 0.1; done
	"$@"
	sleep 0.5
	kill -INT $dump
	wait $dump || true
	rm "$out/tcpdump.log"
}

# pair PROGRAM ARGUMENT...: a server on rcap0, a client on rcap1.
pair() {
	"$@" -d rcap0 "$gid_flag" "$gid0" >"$log" 2>&1 &
	local server=$!
	sleep 1.5
	"$@" -d rcap1 "$gid_flag" "$gid1" 127.0.0.1 >>"$log" 2>&1 || { cat "$log" >&2; exit 1; }
	wait $server
}

network
log=$(mktemp)
cc -O1 -o "$log.opcodes" "$here/opcodes.c" -libverbs
for family in ipv4 ipv6; do
	case $family in
	ipv4) prefix=0000:0000:0000:0000:0000:ffff:0a62:000 ;;
	ipv6) prefix=fd98:0000:0000:0000:0000:0000:0000:000 ;;
	esac
	gid0=$(gid_index rcap0 "${prefix}1") gid1=$(gid_index rcap1 "${prefix}2")

	gid_flag=-g
	capture rc-send-$family pair ibv_rc_pingpong -n 2 -s 3001 -m 1024
	capture uc-send-$family pair ibv_uc_pingpong -n 2 -s 2050 -m 1024
	capture ud-send-$family pair ibv_ud_pingpong -n 2 -s 1021
	gid_flag=-x
	capture rc-write-$family pair ib_write_bw -n 5 -s 2303 -m 1024 -F
	capture rc-read-$family pair ib_read_bw -n 5 -s 2303 -m 1024 -F
	capture uc-write-$family pair ib_write_bw -c UC -n 5 -s 1301 -m 512 -F
	capture rc-atomic-$family pair ib_atomic_bw -A CMP_AND_SWAP -n 5 -F
	capture opcodes-$family "$log.opcodes" rcap0 "$gid0" rcap1 "$gid1"
done
