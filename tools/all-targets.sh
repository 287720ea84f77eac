#!/bin/bash
# tools/all-targets.sh RULE... runs rules of the Makefile once each, as short as possible because it only checks that they work, and
# prints a table. The output of each is in out/all-targets/RULE.log. Fails if one failed.
set -euo pipefail
cd "$(dirname "$0")/.."

short=(FUZZ=2s JOB=send ROUNDS=1 BENCHTIME=200ms NET_TIME=20ms NET_TIMES=1 NET_SIZES= DESTDIR=out/installed
	SOAK="-soak.connects 200" SOAK_RXE="-soak.connects 16 -soak.clients 16")
declare -A shorter=( # separated by semicolons
	[stress]="RUN=oob"
	[faults]="RUN=^kill/in_RTS/"
	[faults-rxe]="RUN=^kill/in_RTS/.*/send"
	[bench-c]="RUN=WaitWake;VM_ICOUNT=1;VM_SMP=1" # a busy host changes nothing then
	[lab-web]="SERVE=--file out/served.html;DISPLAY=;WAYLAND_DISPLAY=" # it serves nothing, and returns
	[fresh]="CMD=make demo"
	[vm]="CMD=rdma link"
	[test-web]="RUN=illegal"
)

logs=out/all-targets failed=
rm -rf "$logs"
mkdir -p "$logs"
for rule; do
	begun=$SECONDS result=ok
	IFS=';' read -ra more <<<"${shorter[$rule]:-}"
	make "$rule" "${short[@]}" "${more[@]}" </dev/null >"$logs/$rule.log" 2>&1 || {
		result=FAILED failed+=" $rule"
		tail -n 40 "$logs/$rule.log" >&2
	}
	printf '| %-16s | %-6s | %4d s |\n' "$rule" "$result" $((SECONDS - begun))
done
[[ -z $failed ]] || { echo "all-targets: failed:$failed; see $logs" >&2; exit 1; }
