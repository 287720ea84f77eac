#!/bin/bash
# The main job in one terminal: a server and a client on the same device. To be
# run at the repository's root:
#
#   test/e2e/demo.sh DEVICE ADDRESS     PORT in the environment: the TCP port
#
# `make demo` runs it on soft0, `make demo-rxe` on rxe0 in the machine.
set -euo pipefail

device=$1 address=$2 port=${PORT:-18515}
printf -v hex %04X "$port"
listening() { # without another program: each takes its time in an emulated machine
	local line
	while read -r line; do
		[[ $line != *": "*":$hex "*" 0A "* ]] || return 0
	done < <(cat /proc/net/tcp /proc/net/tcp6)
	return 1
}

echo "$ ./rdma_server --once $device $port &"
./rdma_server --once "$device" "$port" &
server=$!
until listening; do
	kill -0 $server 2>/dev/null || { echo "the server ended before it listened" >&2; exit 1; }
	sleep 0.05
done
echo "$ ./rdma_client --text 'hello over RDMA' $address $device $port"
status=0
timeout 60 ./rdma_client --text 'hello over RDMA' "$address" "$device" "$port" || status=$?
((status == 0)) || kill $server 2>/dev/null || true
wait $server || status=$?
((status == 0)) || { echo "demo: failed with status $status" >&2; exit "$status"; }
echo "demo: both ends succeeded"
