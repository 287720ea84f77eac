#!/bin/bash
# Starts rdma_client, building it if it is not there, on a device that is there, and
# keeps a log. --help tells the rest.
set -euo pipefail

usage() {
	cat <<-'END'
	usage: run_client.sh <server_ip> [PORT] [FLAG]...

	PORT is the exchange's TCP port (default: 18515); the flags are rdma_client's, such as
	--text TEXT, --json, --pcap FILE. From the environment:

	  RDMA_DEVICE      the device (default: the first there is; else soft0)
	  RDMA_GID_INDEX   the GID index (default: rdma_client finds one)
	  RDMA_LOG         the file to keep what it prints in (default: out/log/client-TIME.log
	                   in the repository; /dev/null: none)

	The exit status is rdma_client's. On the server's host, before: run_server.sh [PORT]
	END
}
case ${1:-} in
-h | --help) usage; exit ;;
'' | -*) echo "run_client.sh: which server? try: run_client.sh 10.0.0.1" >&2; usage | head -n 1 >&2; exit 2 ;;
esac
exec "$(dirname "$0")/launch.sh" client "$@"
