#!/bin/bash
# Creates rxe0, the kernel's soft RoCE device, on a network interface, or removes it.
# Explains failures and prints the GID index to use. See --help.
set -euo pipefail

usage() {
	cat <<-'END'
	usage: setup_rxe.sh [--name rxe0] [NETDEV]      create the device (as root)
	       setup_rxe.sh --remove [--name rxe0]      remove the device (as root)

	NETDEV is the network interface of the device (default: that of the default route).
	Nothing changes if the device exists. The device lasts until the host reboots.

	  -n, --name NAME      the device's name (default: rxe0)
	      --remove         remove the device
	END
}
die() { echo "setup_rxe.sh: $*" >&2; exit 1; }
warn() { echo "setup_rxe.sh: $*" >&2; }
wrong() { warn "$*"; usage | head -n 2 >&2; exit 2; }

name=rxe0 netdev='' remove=''
while (($#)); do
	case $1 in
	-h | --help) usage; exit ;;
	-n | --name) name=${2:-}; shift $(($# > 1)) ;;
	--remove) remove=yes ;;
	-*) wrong "unknown flag $1" ;;
	*) [[ -z $netdev ]] || wrong "only one NETDEV, not '$netdev' and '$1'"; netdev=$1 ;;
	esac
	shift
done
[[ $name =~ ^[A-Za-z0-9_.-]{1,60}$ ]] || wrong "'$name' is not a valid device name"
if [[ -n $remove && -n $netdev ]]; then wrong "--remove takes the device from --name, not a NETDEV"; fi

((EUID == 0)) || die "needs root; try: sudo $0 …, or soft0, a device that needs neither root nor a kernel module: ./rdma_server soft0"
command -v rdma >/dev/null || die "needs the program rdma; try: apt-get install iproute2 (Fedora: dnf install iproute)"
command -v ip >/dev/null || die "needs the program ip; try: apt-get install iproute2 (Fedora: dnf install iproute)"

class=/sys/class/infiniband
below() { cat "$class/$1/parent" 2>/dev/null || true; } # the interface of an rxe device; empty for others

if [[ -n $remove ]]; then
	if [[ ! -e $class/$name ]]; then
		echo "no device $name: nothing to remove"
		exit
	fi
	netdev=$(below "$name")
	[[ -n $netdev ]] || die "$name is not an rxe device; this script removes only rxe devices"
	# rdma_rxe waits for the device's users without notifying them.
	users=$(rdma resource show ctx dev "$name" 2>/dev/null | grep -oE 'pid [0-9]+ comm [^ ]+' | sort -u | paste -sd ';' || true)
	[[ -z $users ]] || die "$name is in use ($users); try: stopping these programs first"
	rdma link del "$name" || die "rdma link del $name failed"
	echo "removed $name from $netdev"
	exit
fi

if [[ -z $netdev ]]; then
	netdev=$(ip -o route show default 2>/dev/null | sed -nE 's/.* dev ([^ ]+).*/\1/p' | head -n 1)
	[[ -n $netdev ]] || die "no default route, so the interface is unknown; try: $0 NETDEV, with one of: $(cd /sys/class/net && echo *)"
fi
[[ -e /sys/class/net/$netdev ]] ||
	die "no network interface $netdev; this host has: $(cd /sys/class/net && echo *); for an interface in another network namespace: ip netns exec NAME $0 $netdev"

# load_module loads rdma_rxe, or explains why it cannot.
load_module() {
	[[ ! -d /sys/module/rdma_rxe ]] || return 0
	command -v modprobe >/dev/null || die "needs the program modprobe; try: apt-get install kmod (in a container: modprobe rdma_rxe on the host)"
	local kernel said
	kernel=$(uname -r)
	if said=$(modprobe rdma_rxe 2>&1); then return; fi
	if [[ ! -d /lib/modules/$kernel ]]; then
		die "no /lib/modules/$kernel, the modules of the running kernel; try: a reboot, if the kernel was updated; in a container: modprobe rdma_rxe on the host"
	fi
	if modprobe -n rdma_rxe 2>/dev/null; then
		# Some kernels bind the UDP port when the module is loaded.
		! port_user || die "modprobe rdma_rxe failed: UDP port 4791 is taken: $users; try: stopping that program (perhaps it uses a soft device), or using the soft device in another network namespace"
		die "modprobe rdma_rxe failed: $said"
	fi
	local id='' try
	# shellcheck source=/dev/null
	id=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${ID_LIKE:-}") || true
	case $kernel:$id in
	*cloud*:*debian*) try="apt-get install linux-image-amd64 and reboot: Debian's cloud kernel leaves rdma_rxe out" ;;
	*:*ubuntu*) try="apt-get install linux-modules-extra-$kernel" ;;
	*:*debian*) try="apt-get install linux-image-amd64 and reboot into that kernel" ;;
	*:*fedora* | *:*rhel*) try="dnf provides '*/rdma_rxe.ko*', and install the package that it prints for $kernel" ;;
	*) try="a kernel with CONFIG_RDMA_RXE" ;;
	esac
	die "kernel $kernel has no module rdma_rxe; try: $try; or soft0, which needs no module"
}

# port_user succeeds if a program in this namespace has rdma_rxe's port; $users names it.
port_user() {
	users=''
	command -v ss >/dev/null || return 1
	users=$(ss -Hlunp 'sport = :4791' 2>/dev/null | grep -oE 'users:.*' | sort -u | paste -sd ' ' || true)
	[[ -n $users ]]
}

if [[ -e $class/$name ]]; then
	on=$(below "$name")
	[[ -n $on ]] || die "the device $name exists and is not an rxe device; try: --name rxe1"
	[[ $on == "$netdev" ]] || die "$name already exists, on $on; try: --name rxe1, or $0 --remove --name $name first"
	echo "$name already exists, on $netdev"
else
	load_module
	for dir in "$class"/*; do
		[[ -e $dir ]] || continue
		if [[ $(below "${dir##*/}") == "$netdev" ]]; then
			die "$netdev has the rxe device ${dir##*/}, and can have only one; try: using ${dir##*/}, or $0 --remove --name ${dir##*/} first"
		fi
	done
	if ! said=$(rdma link add "$name" type rxe netdev "$netdev" 2>&1); then
		why=''
		if port_user; then
			why="UDP port 4791 is taken: $users; try: stopping that program (perhaps it uses a soft device)"
		elif [[ $said == *'No such file'* ]]; then
			why="try: modprobe crc32_generic; modprobe ib_uverbs"
		elif [[ $said == *exists* ]]; then
			why="$netdev already has an rxe device, perhaps in another network namespace; see: rdma link; ip netns"
		fi
		die "rdma link add $name type rxe netdev $netdev: $said${why:+; $why}"
	fi
	echo "created $name on $netdev"
fi

# Warnings about other causes of failure.
read -r state <"/sys/class/net/$netdev/operstate" || state=unknown
if [[ $state == down || $state == lowerlayerdown ]]; then warn "$netdev is down, so no packets pass; try: ip link set $netdev up, or check the cable"; fi
if ! compgen -G '/dev/infiniband/uverbs*' >/dev/null; then
	warn "/dev/infiniband/uverbs* is missing, so no program can open $name; try: modprobe ib_uverbs (in a container: --device /dev/infiniband/uverbs0)"
fi
if command -v ibv_devices >/dev/null && ! ibv_devices 2>/dev/null | grep -qw "$name"; then
	warn "libibverbs does not list $name; try: apt-get install ibverbs-providers (Fedora: libibverbs)"
fi

# The GIDs appear shortly after the device. They follow the interface's addresses.
port=$class/$name/ports/1
gids() { # prints the index, type and GID of each used slot of the table
	local file gid type
	grep -HvE '^0000(:0000){7}$' "$port"/gids/* 2>/dev/null | sort -V | while IFS=: read -r file gid; do
		{ read -r type <"$port/gid_attrs/types/${file##*/}"; } 2>/dev/null || continue # removed just now
		if [[ $gid =~ ^0000:0000:0000:0000:0000:ffff:(..)(..):(..)(..)$ ]]; then
			printf -v gid '::ffff:%d.%d.%d.%d' $((16#${BASH_REMATCH[1]})) $((16#${BASH_REMATCH[2]})) $((16#${BASH_REMATCH[3]})) $((16#${BASH_REMATCH[4]}))
		fi
		echo "${file##*/} $type $gid"
	done
}
addresses=$(ip -o -4 addr show dev "$netdev" | wc -l)
for ((i = 0; i < 50; i++)); do
	table=$(gids)
	if [[ -n $table ]] && { ((addresses == 0)) || [[ $table == *::ffff:* ]]; }; then break; fi
	sleep 0.1
done
echo "GIDs of $name, port 1:"
while read -r number rest; do echo "  index $number: $rest"; done <<<"$table"
index=$(sed -nE '/RoCE v2 ::ffff:/{s/ .*//p;q}' <<<"$table")
if [[ -n $index ]]; then
	echo "use index $index: ./rdma_server $name 18515 $index; ./rdma_client <server_ip> $name 18515 $index (if you omit the index, the programs choose it)"
elif ((addresses == 0)); then
	warn "$netdev has no IPv4 address, so $name has no IPv4 GID; try: ip address add 10.0.0.1/24 dev $netdev"
else
	warn "the GID of $netdev's IPv4 address did not appear within 5 s; try: running this script again"
fi
