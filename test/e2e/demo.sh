#!/bin/bash
# Runs the main job in one terminal, with a server and a client on one device. Run it at the
# repository's root:
#
#   test/e2e/demo.sh DEVICE ADDRESS
#
# Environment variables: PORT is the TCP port, COLUMNS the width of the terminal, BIN the
# directory of the programs. A wide terminal shows the two stories side by side.
#
# `make demo` runs it on soft0, `make demo-rxe` on rxe0 in the machine.
set -euo pipefail

device=$1 address=$2 port=${PORT:-18515} bin=${BIN:-.}
printf -v hex %04X "$port"
listening() { # starts no program but cat, because programs start slowly in an emulated machine
	local line
	while read -r line; do
		[[ $line != *": "*":$hex "*" 0A "* ]] || return 0
	done < <(cat /proc/net/tcp /proc/net/tcp6)
	return 1
}

exec 3>&1 4>&1 # the server's story and the client's
story=80       # columns of one story
width=${COLUMNS:-0}
if [[ -z ${COLUMNS:-} && -t 1 ]]; then
	read -r _ width < <(stty size <&3 2>/dev/null || echo 0 0)
fi

# columns prints two stories in columns, with the same step of both on one line. awk counts
# bytes; continuation bytes of UTF-8 take no column.
columns() {
	LC_ALL=C awk -v width=$story '
		function columns(s) { gsub(/[\200-\277]/, "", s); return length(s) }
		function step(s) { return s ~ /^(make|endpoint|[A-Z]+→[A-Z]+) / }
		function show(l, r,  gap) {
			for (gap = columns(l); gap < width; gap++) l = l " "
			print l " │" (r == "" ? "" : " " r)
		}
		FNR == NR { left[++n] = $0; next }
		{ right[++m] = $0 }
		END {
			for (i = j = 1; i <= n || j <= m;) {
				if (i <= n && j <= m && step(left[i]) && !step(right[j])) show("", right[j++])
				else if (i <= n && j <= m && step(right[j]) && !step(left[i])) show(left[i++], "")
				else show(left[i++], right[j++])
			}
		}' "$1" "$2"
}

if ((width >= 2 * story + 3)); then
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	exec 3>"$folder/server" 4>"$folder/client"
fi

echo "$ ./rdma_server --once $device $port &" >&3
"$bin/rdma_server" --once "$device" "$port" >&3 &
server=$!
until listening; do
	kill -0 $server 2>/dev/null || { echo "the server ended before it listened" >&2; exit 1; }
	sleep 0.05
done
echo "$ ./rdma_client --text 'hello over RDMA' $address $device $port" >&4
status=0
timeout 60 "$bin/rdma_client" --text 'hello over RDMA' "$address" "$device" "$port" >&4 || status=$?
((status == 0)) || kill $server 2>/dev/null || true
wait $server || status=$?
[[ -z ${folder:-} ]] || columns "$folder/server" "$folder/client"
((status == 0)) || { echo "demo: failed with status $status" >&2; exit "$status"; }
echo "demo: both ends succeeded"
