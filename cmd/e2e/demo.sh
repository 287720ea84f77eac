#!/bin/bash
# Runs the main job, with a server and a client on one device, and draws both ends side by side in 80 columns. Run it
# at the repository's root:
#
#   cmd/e2e/demo.sh DEVICE ADDRESS
#
# Environment variables: PORT is the TCP port, BIN the directory of the programs.
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

echo "$ ./rdma_server --once --quiet $device $port &"
"$bin/rdma_server" --once --quiet "$device" "$port" &
server=$!
until listening; do
	kill -0 $server 2>/dev/null || { echo "the server ended before it listened" >&2; exit 1; }
	sleep 0.05
done
echo "$ ./rdma_client --ladder --text 'hello over RDMA' $address $device $port"
echo
status=0
timeout 60 "$bin/rdma_client" --ladder --text 'hello over RDMA' "$address" "$device" "$port" || status=$?
((status == 0)) || kill $server 2>/dev/null || true
wait $server || status=$?
((status == 0)) || { echo "demo: failed with status $status" >&2; exit "$status"; }
cat <<-END

	═══> is a work request, ---> a message over TCP. The states of the queue pairs
	stand outside. Without --ladder each end says what it does, and why.
	now: make lab-web
END
