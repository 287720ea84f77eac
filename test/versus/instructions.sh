#!/bin/bash
# Counts the instructions that rdma_client and perftest execute per message, on a device that does
# nothing (instant0 of verbs/testdata/libibverbs.c): one post and the polls for it.
#
#   make bench-instructions     or, for programs in another directory:  test/versus/instructions.sh DIR
#
# Valgrind counts two runs of each client, and the difference is that of the messages. It includes the
# device's own instructions, 20 to 60, and varies by some 20 for perftest, which measures the processor's
# clock meanwhile. The second figure is the time per message by the clock.
set -euo pipefail

ours=$(cd "${1:-.}" && pwd -P)
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
gcc -O2 -Wall -DNO_QSORT -shared -fPIC -o "$dir/libibverbs.so.1" "$(dirname "$0")/../../verbs/testdata/libibverbs.c"

listening() { grep -q "$(printf ':%04X 0*:0000 0A' "$port")" /proc/net/tcp /proc/net/tcp6; }

# run PROGRAM TEST SIZE MESSAGES [PREFIX]... prints what the client prints.
run() {
	local program=$1 test=$2 flags=(-s "$3" -n "$4") server client under
	shift 4
	port=$((20000 + RANDOM % 10000))
	if [[ $program == perftest ]]; then
		under=LD_PRELOAD=$dir/libibverbs.so.1
		server=("ib_${test//-/_}" -F -d instant0 -x 0 -p "$port" "${flags[@]}")
		client=("${server[@]}" 127.0.0.1)
	else
		under=LD_LIBRARY_PATH=$dir # our programs load libibverbs with dlopen
		server=("$ours/rdma_server" --once instant0 "$port" 0)
		client=("$ours/rdma_client" --job "bench-$test" "${flags[@]}" 127.0.0.1 instant0 "$port" 0)
	fi
	env "$under" timeout 60 "${server[@]}" >"$dir/server" 2>&1 &
	until listening; do kill -0 $!; sleep 0.05; done
	env "$under" timeout -k 1 60 "$@" "${client[@]}" 2>&1 || { cat "$dir/server" >&2; return 1; }
	wait $!
}

counted() { # counted PROGRAM TEST SIZE MESSAGES
	run "$@" valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null | awk '/ refs:/ { gsub(",", ""); print $NF }'
}

# Above 20,000 messages the programs do not compute the peak, which takes instructions per message too.
few=50000 many=450000
printf '%-20s %28s %30s\n' '' 'instructions per message' 'ns per message'
printf '%-20s %8s %10s %8s %12s %10s\n' '' ours perftest ratio ours perftest
for measure in 'send-lat 2' 'write-bw 2' 'write-bw 65536'; do
	read -r test size <<<"$measure"
	row=()
	for program in ours perftest; do
		row+=($((($(counted $program "$test" "$size" $many) - $(counted $program "$test" "$size" $few)) / (many - few))))
	done
	for program in ours perftest; do # the columns are perftest's: t_typical in µs per way, or millions of messages per second
		row+=("$(run $program "$test" "$size" $many | awk -v size="$size" '$1 == size && $2 > 1000 { print int(NF > 5 ? 2000 * $5 : 1000 / $NF) }')")
	done
	awk -v name="$test, $size B" -v row="${row[*]}" 'BEGIN { split(row, r, " "); printf "%-20s %8d %10d %8.1f %12d %10d\n", name, r[1], r[2], r[1] / r[2], r[3], r[4] }'
done
