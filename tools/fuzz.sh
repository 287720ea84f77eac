#!/bin/bash
# Runs each Fuzz function for a time, one after another, and prints a table of the results:
#
#   tools/fuzz.sh TIME [REGEXP]     of those whose folder and name match, as in 'transport FuzzEngine'
#
# Go keeps the inputs that reached new code in its cache (go env GOCACHE), and the next run begins
# with them. An input that fails is written to testdata/fuzz of the package: commit it with the mend,
# and go test runs it from then on. The output of each function is in out/fuzz. Fails if one failed.
set -euo pipefail
cd "$(dirname "$0")/.."
(($# == 1 || $# == 2)) || { echo "usage: tools/fuzz.sh TIME [REGEXP]" >&2; exit 2; }
time=$1 wanted=${2:-.}

mapfile -t functions < <(grep -roE --include='*_test.go' --exclude-dir=out --exclude-dir=node_modules '^func Fuzz\w+' . |
	sed -E 's|^\./(.*)/[^/]*:func (.*)$|\1 \2|' | sort | grep -E -- "$wanted")
((${#functions[@]})) || { echo "fuzz: no Fuzz function matches $wanted" >&2; exit 2; }

logs=out/fuzz
mkdir -p $logs
rows=() failed=()
for function in "${functions[@]}"; do
	read -r folder name <<<"$function"
	log=$logs/${folder//\//-}-$name.log status=0
	echo "fuzz: $folder $name" >&2
	# Go would spend up to a minute on making each input smaller that reaches new code, and nearly all time on that.
	go test -fuzzminimizetime 10x -run '^$' -fuzz "^$name\$" -fuzztime "$time" "./$folder" >"$log" 2>&1 || status=$?
	# The last line of Go's progress: fuzz: elapsed: 2m0s, execs: 96 (48/sec), new interesting: 3 (total: 9)
	progress=$(grep '^fuzz: elapsed: .*new interesting' "$log" | tail -n 1 || true)
	execs=$(sed -nE 's/.*execs: ([0-9]+).*/\1/p' <<<"$progress")
	new=$(sed -nE 's/.*new interesting: ([0-9]+).*/\1/p' <<<"$progress")
	result=ok
	if ((status)) || grep -q 'no fuzz tests to fuzz' "$log"; then
		result="FAILED: see $log"
		failed+=("$folder $name")
		tail -n 40 "$log" >&2
	fi
	rows+=("$(printf '| %-52s | %10s | %6s | %s |' "$folder $name" "${execs:-0}" "${new:-0}" "$result")")
done
printf '| %-52s | %10s | %6s | result |\n|%s|%s:|%s:|--------|\n' function executions new \
	------------------------------------------------------ ----------- -------
printf '%s\n' "${rows[@]}"
if ((${#failed[@]})); then
	echo "fuzz: failed: ${failed[*]}" >&2
	exit 1
fi
