#!/bin/bash
# Captures RoCEv2 and the TCP exchange on a network interface, or shows a capture with one
# line per packet. See --help.
set -euo pipefail

usage() {
	cat <<-'END'
	usage: capture.sh [-w FILE] [-p PORT] [-t SECONDS] [NETDEV]     capture (as root)
	       capture.sh --read FILE [-p PORT] [--count N]             show, one line per packet

	Captures the packets on NETDEV (default: the interface of the first RDMA device) with
	the filter `udp port 4791 or tcp port PORT`, until Ctrl-C, or for SECONDS.

	  -w, --write FILE     file to write (default: roce.pcap)
	  -p, --port PORT      TCP port of the exchange (default: 18515; with --read: any)
	  -t, --time SECONDS   stop after that time
	  -r, --read FILE      show FILE: every RoCEv2 packet, and TCP without bare ACKs
	  -c, --count N        with --read: show the first N packets, and count all packets

	A soft device does not need this script: rdma_server and rdma_client write its packets
	with --pcap FILE, without root. An rxe device that sends to itself does not use NETDEV,
	so there is nothing to capture; use two devices, two hosts, or `make lab`.
	END
}
die() { echo "capture.sh: $*" >&2; exit 1; }
warn() { echo "capture.sh: $*" >&2; }
wrong() { warn "$*"; usage | head -n 2 >&2; exit 2; }
number() { [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || wrong "$1 takes a number above 0, not '$2'"; }

write='' port='' seconds='' read='' count='' netdev=''
while (($#)); do
	case $1 in
	-h | --help) usage; exit ;;
	-w | --write | -p | --port | -t | --time | -r | --read | -c | --count)
		[[ -n ${2:-} ]] || wrong "$1 needs a value"
		case $1 in
		-w | --write) write=$2 ;;
		-p | --port) number "$1" "$2"; port=$2; ((port < 65536)) || wrong "$port is not a TCP port" ;;
		-t | --time) number "$1" "$2"; seconds=$2 ;;
		-r | --read) read=$2 ;;
		-c | --count) number "$1" "$2"; count=$2 ;;
		esac
		shift
		;;
	-*) wrong "unknown flag $1" ;;
	*) [[ -z $netdev ]] || wrong "only one NETDEV, not '$netdev' and '$1'"; netdev=$1 ;;
	esac
	shift
done
if [[ -n $read && -n $netdev$write$seconds ]]; then wrong "--read reads a file; it does not take NETDEV, --write or --time"; fi
if [[ -z $read && -n $count ]]; then wrong "--count needs --read"; fi

# show prints the capture $read as text.
show() {
	local fields field arguments=() errors status=0
	[[ -r $read ]] || die "cannot read $read; try: a capture file that you may read"
	command -v tshark >/dev/null || die "needs tshark; try: apt-get install tshark (Fedora: wireshark-cli), or open $read in Wireshark"
	fields=(
		frame.number frame.time_relative ip.src ip.dst ipv6.src ipv6.dst udp.length
		infiniband.bth.opcode infiniband.bth.destqp infiniband.bth.psn infiniband.bth.a infiniband.bth.se
		infiniband.bth.padcnt infiniband.aeth.syndrome infiniband.aeth.msn
		infiniband.reth.va infiniband.reth.r_key infiniband.reth.dmalen infiniband.immdt
		infiniband.atomiceth.swapdt infiniband.atomiceth.cmpdt
		infiniband.atomicacketh.origremdt infiniband.ieth infiniband.deth.q_key infiniband.deth.srcqp
		tcp.flags.str tcp.len tcp.payload frame.protocols _ws.malformed
	)
	for field in "${fields[@]}"; do arguments+=(-e "$field"); done
	errors=$(mktemp)
	tshark -n -r "$read" -Y "(udp.port == 4791 && infiniband) || ${port:+tcp.port == $port && }tcp" \
		-T fields -E separator=/t -E occurrence=f "${arguments[@]}" 2>"$errors" |
		awk -F '\t' -v names="${fields[*]}" -v limit="${count:-0}" -f "$(dirname "$0")/packets.awk" || status=$?
	errors=$(grep -v 'Running as user' "$errors"; rm -f "$errors")
	((status == 0)) || die "cannot read $read: ${errors//$'\n'/ }"
	[[ -z $errors ]] || warn "$errors"
}
if [[ -n $read ]]; then
	show
	exit
fi

# The first RDMA device and its network interface.
device='' below=''
for dir in /sys/class/infiniband/*; do
	[[ -e $dir ]] || break
	below=$(cat "$dir"/ports/1/gid_attrs/ndevs/0 2>/dev/null || true)
	if [[ -n $below ]]; then device=${dir##*/}; break; fi
done
if [[ -z $netdev ]]; then
	[[ -n $below ]] || die "this host has no RDMA device, so the interface is unknown; try: capture.sh NETDEV, or --pcap of rdma_server and rdma_client for a soft device"
	netdev=$below
fi
[[ -e /sys/class/net/$netdev ]] ||
	die "no network interface $netdev; this host has: $(cd /sys/class/net && echo *); for an interface in another network namespace: ip netns exec NAME $0 …"
((EUID == 0)) || die "capturing needs root; try: sudo $0 …, or, for a soft device, --pcap FILE of rdma_server and rdma_client"
write=${write:-roce.pcap}
[[ ! -d $write ]] || die "$write is a folder; try: -w $write/roce.pcap"
[[ -d $(dirname -- "$write") ]] || die "no folder $(dirname -- "$write"); try: -w FILE in a folder that exists"

filter="udp port 4791 or tcp port ${port:-18515}"
if command -v tcpdump >/dev/null; then
	# Write each packet at once; otherwise the last packets are lost when tcpdump is stopped.
	capture=(tcpdump -i "$netdev" -n --immediate-mode -U -s 0 -w "$write")
	if [[ $(id -un) == root ]]; then capture+=(-Z root); fi # otherwise tcpdump drops root's rights before it opens the file
elif command -v dumpcap >/dev/null; then
	capture=(dumpcap -q -P -i "$netdev" -w "$write" -f)
else
	die "needs tcpdump (or dumpcap); try: apt-get install tcpdump"
fi
if [[ -n $seconds ]]; then capture=(timeout --preserve-status --foreground -s INT "$seconds" "${capture[@]}"); fi

echo "capturing on $netdev into $write: $filter"
if [[ $netdev == lo ]]; then
	warn "lo has only the packets of soft0, which --pcap FILE writes too; no rxe device uses lo"
elif [[ $netdev == "$below" && -e /sys/class/infiniband/$device/parent ]]; then
	warn "packets that $device sends to itself do not pass $netdev: the peer must be another device"
fi
echo "to show it: $0 --read $write"
exec "${capture[@]}" "$filter"
