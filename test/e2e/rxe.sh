#!/bin/bash
# Runs the tests of several packages in one machine with rxe0, one package after another.
# `go test -exec in-vm.sh` would boot a machine for each package.
#
#   rxe.sh NAME 'TAGS' 'DIRECTORY...' [-v] [-run=REGEXP] [-skip=REGEXP]
#
# It prints a line per package with the time. It prints the output of a package that failed, and
# with -v of each. Tests that failed run once more, alone; "ok again" names those that then pass.
# NAME is the directory in out/ for the test binaries.
set -euo pipefail
cd "$(dirname "$0")/../.."
repo=$PWD

if [[ ${1:-} == inside ]]; then
	shift
	export RDMA_TEST_DEVICE=rxe0
	output=/tmp/output status=0 verbose=""
	if [[ " $* " == *" -test.v"* ]]; then verbose=1; fi
	run() { # run PACKAGE BINARY FLAG...
		local ended=0
		(cd "$1" && exec "$2" -test.timeout=19m "${@:3}") </dev/null >$output 2>&1 || ended=$?
		if [[ -n $verbose ]] || ((ended)); then cat $output; fi
		return $ended
	}
	while read -r package binary; do
		begun=${EPOCHREALTIME/./} result=ok
		if ! run "$package" "$binary" "$@"; then
			# The emulated machine stands still while a busy host gives it no time, so a timeout
			# may pass in a test. Such a test passes alone; a defect fails again.
			failed=$(sed -nE 's/^--- FAIL: (\w+).*/\1/p' $output | paste -sd '|')
			# After a crash the last line is not FAIL, and some tests did not run.
			if [[ $(tail -n 1 $output) == FAIL && -n $failed ]] && run "$package" "$binary" -test.run="^($failed)\$"; then
				result="ok again: $failed"
			else
				result=FAIL status=1
			fi
		fi
		took=$(((${EPOCHREALTIME/./} - begun) / 100000))
		printf '%s\t%d.%d s\t%s\n' "$package" $((took / 10)) $((took % 10)) "$result"
	done <"$LIST"
	exit "$status"
fi

(($# >= 3)) || { echo "usage: rxe.sh NAME 'TAGS' 'DIRECTORY...' [-v] [-run=REGEXP] [-skip=REGEXP]" >&2; exit 2; }
binaries=$repo/out/_rxe/$1 tags=$2
read -ra packages <<<"$3"
shift 3
flags=() # a test binary's flags have a prefix
for flag; do flags+=("-test.${flag#-}"); done

rm -rf "$binaries"
mkdir -p "$binaries"
for package in "${packages[@]}"; do
	name=${package#./} name=${name%/}
	binary=$binaries/${name//\//-}.test
	go test -c -tags "$tags" -o "$binary" "./$name"
	[[ ! -e $binary ]] || echo "$name $binary" # a package may have no tests with these tags
done >"$binaries/list"
printf -v arguments '%q ' "${flags[@]}"
export LIST=$binaries/list
VM_ENV="${VM_ENV:-} LIST GOTRACEBACK" exec test/vm/run.sh "test/e2e/rxe.sh inside $arguments"
