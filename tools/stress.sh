#!/bin/bash
# Repeats the tests of each package beside busy loops, and prints a table of failures per thousand runs:
#
#   tools/stress.sh DURATION ['REGEXP']     packages that match REGEXP, for 90s, 8m or 2h in all
#
# Two busy loops run per processor. A run has GOMAXPROCS 1, 2 or 8, in turn, and its tests in random order.
# The package whose runs took the least time so far runs next. A package that had no run in the time has the result "-".
# out/stress has the output of each run that failed. Fails if a run failed.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ ${1:-} =~ ^([0-9]+)([smh]?)$ ]] || { echo "usage: stress.sh DURATION ['REGEXP'], such as 90s, 8m or 2h" >&2; exit 2; }
seconds=${BASH_REMATCH[1]}
case ${BASH_REMATCH[2]} in m) ((seconds *= 60)) ;; h) ((seconds *= 3600)) ;; esac
only=${2:-.}

out=out/stress
rm -rf "$out"
mkdir -p "$out/bin"
packages=()
while read -r dir; do
	name=${dir#"$PWD"/}
	[[ ./$name =~ $only ]] || continue
	go test -c -o "$out/bin/${name//\//-}" "./$name"
	packages+=("$name")
done < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./...)
((${#packages[@]})) || { echo "no package with tests matches $only" >&2; exit 2; }

loops=()
# shellcheck disable=SC2317 # called by the trap
stop() { kill "${loops[@]}" 2>/dev/null || true; }
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for ((i = 0; i < 2 * $(nproc); i++)); do
	timeout $((seconds + 1800)) bash -c 'while :; do :; done' &
	loops+=($!)
done

declare -A runs=() failures=() spent=() tests=()
# once PACKAGE runs the tests of a package once.
once() {
	local name=$1 file=${1//\//-} procs begun status=0
	local binary=$PWD/$out/bin/$file log=$PWD/$out/$file
	procs=$((runs[$name] % 3))
	case $procs in 0) procs=2 ;; 1) procs=1 ;; 2) procs=8 ;; esac
	begun=${EPOCHREALTIME/./}
	(cd "$name" && GOMAXPROCS=$procs exec "$binary" -test.shuffle=on -test.timeout=20m) >"$log.log" 2>&1 </dev/null || status=$?
	spent[$name]=$((spent[$name] + ${EPOCHREALTIME/./} - begun))
	runs[$name]=$((runs[$name] + 1))
	((status)) || return 0
	failures[$name]=$((failures[$name] + 1))
	mv "$log.log" "$log-${runs[$name]}-procs-$procs.log"
	tests[$name]+="$(sed -nE 's/^ *--- FAIL: ([^ ]+).*/\1/p; s/^(panic|fatal error): .*/crash/p' "$log-${runs[$name]}-procs-$procs.log" | paste -sd ' ') "
}

for name in "${packages[@]}"; do
	runs[$name]=0 failures[$name]=0 spent[$name]=0 tests[$name]=''
done
end=$((SECONDS + seconds))
while ((SECONDS < end)); do
	next=
	for name in "${packages[@]}"; do
		if [[ -z $next ]] || ((spent[$name] < spent[$next])); then next=$name; fi
	done
	once "$next"
done

status=0
printf '%-36s %6s %8s %7s  %s\n' package runs failures 'per 1000' tests
for name in "${packages[@]}"; do
	if ((runs[$name] == 0)); then
		printf '%-36s %6d %8s %7s\n' "$name" 0 - -
		continue
	fi
	printf '%-36s %6d %8d %7d  %s\n' "$name" "${runs[$name]}" "${failures[$name]}" $((1000 * failures[$name] / runs[$name])) \
		"$(tr ' ' '\n' <<<"${tests[$name]}" | grep . | sort | uniq -c | sort -rn | awk '{printf "%s%s×%s", sep, $2, $1; sep = ", "}' || true)"
	if ((failures[$name])); then status=1; fi
done
if ((status)); then echo "the output of the failed runs: $out/*.log"; fi
exit $status
