#!/bin/bash
# The main job in one terminal: a server and a client on the same rxe0. To be
# run in the machine, at the repository's root; `make demo` does.
set -euo pipefail

port=18515
listening() { # without another program: each takes its time in an emulated machine
	local line
	while read -r line; do
		[[ $line != *": "*":$(printf %04X $port) "*" 0A "* ]] || return 0
	done < <(cat /proc/net/tcp /proc/net/tcp6)
	return 1
}

echo "$ ./rdma_server --once rxe0 $port &"
./rdma_server --once rxe0 $port &
server=$!
until listening; do
	kill -0 $server 2>/dev/null || { echo "the server ended before it listened" >&2; exit 1; }
	sleep 0.05
done
echo "$ ./rdma_client --text 'hello over RDMA' 10.99.0.1 rxe0 $port"
status=0
timeout 60 ./rdma_client --text 'hello over RDMA' 10.99.0.1 rxe0 $port || status=$?
((status == 0)) || kill $server 2>/dev/null || true
wait $server || status=$?
((status == 0)) || { echo "demo: failed with status $status" >&2; exit "$status"; }
echo "demo: both ends succeeded"
