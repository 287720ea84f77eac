#!/bin/bash
# Starts rdma_client on a device of this host and writes a log. Builds rdma_client first if
# necessary. See --help.
set -euo pipefail

usage() {
	cat <<-'END'
	usage: run_client.sh <server_ip> [PORT] [FLAG]...

	PORT is the TCP port of the exchange (default: 18515). The flags are those of
	rdma_client, such as --text TEXT, --json, --pcap FILE. Environment variables:

	  RDMA_DEVICE      the device (default: the first RDMA device, or soft0)
	  RDMA_GID_INDEX   the GID index (default: chosen by rdma_client)
	  RDMA_LOG         the log file (default: out/log/client-TIME.log in the repository;
	                   /dev/null: no log)

	The exit status is that of rdma_client. First start run_server.sh [PORT] on the server.
	END
}
case ${1:-} in
-h | --help) usage; exit ;;
'' | -*) echo "run_client.sh: needs the server's address; try: run_client.sh 10.0.0.1" >&2; usage | head -n 1 >&2; exit 2 ;;
esac
exec "$(dirname "$0")/launch.sh" client "$@"
