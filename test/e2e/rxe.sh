#!/bin/bash
# Runs the tests of several packages in one machine with rxe0, one package after another.
# `go test -exec in-vm.sh` would boot a machine for each package.
#
#   rxe.sh NAME 'TAGS' 'DIRECTORY...' [-v] [-run=REGEXP] [-skip=REGEXP]
#
# It prints a line per package with the time, and with -v the output of each. At the end it prints the
# failed tests of each package, their output, and how to run them alone.
# NAME is the directory in out/ for the test binaries.
set -euo pipefail
cd "$(dirname "$0")/../.."
repo=$PWD

if [[ ${1:-} == inside ]]; then
	shift
	export RDMA_TEST_DEVICE=rxe0
	outputs=$(mktemp -d) failed=() verbose=""
	if [[ " $* " == *" -test.v"* ]]; then verbose=1; fi
	while read -r package binary; do
		begun=${EPOCHREALTIME/./} result=ok output=$outputs/${package//\//-}
		if ! (cd "$package" && exec "$binary" -test.timeout=19m "$@") </dev/null >"$output" 2>&1; then
			result=FAIL
			failed+=("$package")
		fi
		if [[ -n $verbose ]]; then cat "$output"; fi
		took=$(((${EPOCHREALTIME/./} - begun) / 100000))
		printf '%s\t%d.%d s\t%s\n' "$package" $((took / 10)) $((took % 10)) "$result"
	done <"$LIST"
	for package in "${failed[@]}"; do
		output=$outputs/${package//\//-}
		tests=$(sed -nE 's/^--- FAIL: (\w+).*/\1/p' "$output" | paste -sd '|')
		# A test binary that crashed, or ran out of time, has no such line for the test that ran then.
		printf '\nFAIL %s: %s\n' "$package" "${tests:-it ended early}"
		if [[ -z $verbose ]]; then cat "$output"; fi
		echo "alone: make all && test/e2e/rxe.sh alone $TAGS ./$package -v${tests:+" -run='^($tests)\$'"}"
	done
	exit $((${#failed[@]} > 0))
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
export LIST=$binaries/list TAGS=$tags
VM_ENV="${VM_ENV:-} LIST TAGS GOTRACEBACK" exec test/vm/run.sh "test/e2e/rxe.sh inside $arguments"
