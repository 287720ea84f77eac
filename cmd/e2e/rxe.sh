#!/bin/bash
# Runs the tests of several packages in one machine with rxe0, one package after another.
# `go test -exec in-vm.sh` would boot a machine for each package.
#
#   rxe.sh NAME 'TAGS' 'DIRECTORY...' [FLAG OF THE TESTS]... [-- 'TAGS' 'DIRECTORY...' FLAG...]...
#
# Each group after -- has tags and flags of its own. The script prints a line per package with the time, and
# with -v the output of each. At the end it prints the failed tests of each package, their output, and how to
# run them alone. NAME is the directory in out/ for the test binaries.
set -euo pipefail
cd "$(dirname "$0")/../.."
repo=$PWD

if [[ ${1:-} == inside ]]; then
	export RDMA_TEST_DEVICE=rxe0 RAWVERBS_BIN=$PWD
	outputs=$(mktemp -d) failed=()
	modprobe -a tun sch_tbf # for the tests with the tag netns
	while IFS=$'\t' read -r package binary tags flags; do
		read -ra flags <<<"$flags"
		verbose='' in=()
		# In the machine's own namespace rxe0 holds port 4791 of every address.
		# shellcheck disable=SC2016 # the inner shell expands them
		if [[ $tags == netns ]]; then in=(unshare --net sh -c 'ip link set lo up && exec "$0" "$@"'); fi
		if [[ " ${flags[*]} " == *" -test.v "* ]]; then verbose=1; fi
		begun=${EPOCHREALTIME/./} result=ok output=$outputs/${binary##*/}
		if ! (cd "$package" && exec "${in[@]}" "$binary" -test.timeout=30m "${flags[@]}") </dev/null >"$output" 2>&1; then
			result=FAIL
			failed+=("$package $output $tags $verbose")
		fi
		if [[ -n $verbose ]]; then cat "$output"; fi
		took=$(((${EPOCHREALTIME/./} - begun) / 100000))
		printf '%s\t%d.%d s\t%s\n' "$package" $((took / 10)) $((took % 10)) "$result"
	done <"$LIST"
	for entry in "${failed[@]}"; do
		read -r package output tags verbose <<<"$entry"
		tests=$(sed -nE 's/^--- FAIL: (\w+).*/\1/p' "$output" | paste -sd '|')
		# A test binary that crashed, or ran out of time, has no such line for the test that ran then.
		printf '\nFAIL %s: %s\n' "$package" "${tests:-it ended early}"
		if [[ -z $verbose ]]; then cat "$output"; fi
		# The programs' logs are long, and only the end of all this may be seen.
		grep -E '^ +[a-z0-9_]+_test\.go:[0-9]+: ' "$output" | head -n 5 | cut -c -600 || true
		echo "alone: make all && cmd/e2e/rxe.sh alone $tags ./$package -v${tests:+" -run='^($tests)\$'"}"
	done
	exit $((${#failed[@]} > 0))
fi

usage="usage: rxe.sh NAME 'TAGS' 'DIRECTORY...' [FLAG OF THE TESTS]... [-- 'TAGS' 'DIRECTORY...' FLAG...]..."
(($# >= 3)) || { echo "$usage" >&2; exit 2; }
binaries=$repo/out/_rxe/$1
shift
rm -rf "$binaries"
mkdir -p "$binaries"
export LIST=$binaries/list
while (($#)); do
	(($# >= 2)) || { echo "$usage" >&2; exit 2; }
	tags=$1
	read -ra packages <<<"$2"
	shift 2
	flags=()
	while (($#)) && [[ $1 != -- ]]; do
		case $1 in # the flags of package testing have a prefix
		-v | -short | -run=* | -skip=* | -timeout=*) flags+=("-test.${1#-}") ;;
		*) flags+=("$1") ;;
		esac
		shift
	done
	shift $(($# > 0))
	for package in "${packages[@]}"; do
		name=${package#./} name=${name%/}
		binary=$binaries/${name//\//-}-${tags//,/-}.test
		go test -c -tags "$tags" -o "$binary" "./$name"
		# A package may have no tests with these tags.
		[[ ! -e $binary ]] || printf '%s\t%s\t%s\t%s\n' "$name" "$binary" "$tags" "${flags[*]}"
	done
done >"$LIST"
VM_ENV="${VM_ENV:-} LIST GOTRACEBACK" exec test/vm/run.sh 'cmd/e2e/rxe.sh inside'
