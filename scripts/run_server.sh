#!/bin/bash
# Starts rdma_server on a device of this host and writes a log. Builds rdma_server first if
# necessary. See --help.
set -euo pipefail

usage() {
	cat <<-'END'
	usage: run_server.sh [PORT] [FLAG]...

	PORT is the TCP port of the exchange (default: 18515). The flags are those of
	rdma_server, such as --once, --json, --pcap FILE. Environment variables:

	  RDMA_DEVICE      the device (default: the first RDMA device, or soft0)
	  RDMA_GID_INDEX   the GID index (default: chosen by rdma_server)
	  RDMA_LOG         the log file (default: out/log/server-TIME.log in the repository;
	                   /dev/null: no log)

	The exit status is that of rdma_server. On the client: run_client.sh <server_ip> [PORT]
	END
}
case ${1:-} in -h | --help) usage; exit ;; esac
exec "$(dirname "$0")/launch.sh" server "$@"
