#!/bin/bash
# Runs targets of the Makefile beside each other, because each waits some of the time:
#
#   tools/parts.sh JOBS TARGET...     JOBS at once
#
# It prints a line per target with its result and time, then the last lines of each that failed.
# out/parts/TARGET.log has the whole output. Fails if a target failed.
set -euo pipefail
cd "$(dirname "$0")/.."
(($# >= 2)) || { echo "usage: parts.sh JOBS TARGET..." >&2; exit 2; }
jobs=$1
shift

logs=out/parts
rm -rf "$logs"
mkdir -p "$logs"
declare -A name=() begun=()
# Each target is a process group, so that all of its processes end.
set -m
# shellcheck disable=SC2317 # called by the trap
stop() {
	local pid
	for pid in "${!name[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
	wait
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

failed=()
ended() { # waits until a target ends
	local pid='' status=0
	wait -n -p pid "${!name[@]}" || status=$?
	local target=${name[$pid]} result=passed
	if ((status)); then
		result=FAILED
		failed+=("$target")
	fi
	printf '%-18s %s  %4d s\n' "$target" "$result" $((SECONDS - begun[$pid]))
	unset "name[$pid]"
}
# The targets do not share this make's jobs.
unset MAKEFLAGS MFLAGS MAKELEVEL
for target; do
	while ((${#name[@]} >= jobs)); do ended; done
	BUILT=1 make --no-print-directory "$target" >"$logs/$target.log" 2>&1 </dev/null &
	name[$!]=$target begun[$!]=$SECONDS
done
while ((${#name[@]})); do ended; done

((${#failed[@]})) || exit 0
lines=$((45 / ${#failed[@]}))
for target in "${failed[@]}"; do
	echo
	echo "== $target (make $target; its whole output: $logs/$target.log)"
	tail -n $((lines > 12 ? lines : 12)) "$logs/$target.log"
done
exit 1
