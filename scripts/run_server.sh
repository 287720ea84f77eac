#!/bin/bash
# Starts rdma_server, building it if it is not there, on a device that is there, and
# keeps a log. --help tells the rest.
set -euo pipefail

usage() {
	cat <<-'END'
	usage: run_server.sh [PORT] [FLAG]...

	PORT is the exchange's TCP port (default: 18515); the flags are rdma_server's, such as
	--once, --json, --pcap FILE. From the environment:

	  RDMA_DEVICE      the device (default: the first there is; else soft0)
	  RDMA_GID_INDEX   the GID index (default: rdma_server finds one)
	  RDMA_LOG         the file to keep what it prints in (default: out/log/server-TIME.log
	                   in the repository; /dev/null: none)

	The exit status is rdma_server's. On the other host: run_client.sh <server_ip> [PORT]
	END
}
case ${1:-} in -h | --help) usage; exit ;; esac
exec "$(dirname "$0")/launch.sh" server "$@"
