#!/bin/bash
# Runs every target of `make help` once, and prints a table of results and times:
#
#   tools/all-targets.sh               every target
#   tools/all-targets.sh TARGET...     these alone
#   tools/all-targets.sh --without 'TARGET...'    all but these
#
# Where a length can be chosen the run is short: the point is that each target still works.
# The output of each is in out/all-targets/TARGET.log. Fails if one failed.
set -euo pipefail
cd "$(dirname "$0")/.."

# The short form of a target; a target without a line here runs as it is.
declare -A arguments=(
	[fuzz]="FUZZTIME=2s"
	[leaks]="LEAKS=200"
	[bench]="ROUNDS=1"
	[bench-go]="BENCHTIME=1x"
	[bench-soft]="BENCHTIME=200ms"
	[bench-rxe]="BENCHTIME=200ms"
	[bench-c]="RUN=WaitWake VM_ICOUNT=1 VM_SMP=1"
	[fresh]="CMD=make\ demo"
	[vm]="CMD=rdma\ link"
	[lab]="JOB=send"
)
# What removes comes before what makes it again.
first=(clean vm-clean fresh-clean)
# Parts are run one by one; this stands for a run of all of them.
whole=(test)
never=(all-targets help)

listed() { # the targets of make help, those of test/vm/vm.mk too
	make help | sed -nE 's/^  make ([a-z-]+).*/\1/p; s/^  ([a-z-]+) .*/\1/p' | grep -vx make | awk '!seen[$0]++'
}
has() { # has WORD LIST...
	local word=$1 other
	shift
	for other; do if [[ $word == "$other" ]]; then return 0; fi; done
	return 1
}

without=()
if [[ ${1:-} == --without ]]; then
	read -ra without <<<"$2"
	shift 2
fi
mapfile -t all < <(listed)
for target in "$@" "${without[@]}"; do
	has "$target" "${all[@]}" || { echo "all-targets: make help lists no target $target" >&2; exit 2; }
done
targets=()
for target in "${first[@]}" "${all[@]}"; do
	if (($#)) && ! has "$target" "$@"; then continue; fi
	if has "$target" "${without[@]}" "${never[@]}" "${whole[@]}" "${targets[@]}"; then continue; fi
	targets+=("$target")
done

logs=out/all-targets
# clean removes out/, so the logs wait elsewhere.
new=$(mktemp -d "${TMPDIR:-/tmp}/all-targets.XXXXXX")
trap 'mkdir -p out; rm -rf "$logs"; mv "$new" "$logs"' EXIT
failed=() rows=()
for target in "${targets[@]}"; do
	declare -a words=()
	eval "words=(${arguments[$target]:-})"
	echo "make $target ${words[*]}" >&2
	begun=$SECONDS status=0
	make "$target" "${words[@]}" </dev/null >"$new/$target.log" 2>&1 || status=$?
	result=ok
	if [[ $target == test-device && -z ${RDMA_TEST_DEVICE:-} ]]; then
		# Here is no device: the one right answer is to ask which.
		result="ok: asks for a device"
		grep -q '^which device? ' "$new/$target.log" || status=1
		if ((status == 2)); then status=0; fi
	fi
	if ((status)); then
		result="FAILED: status $status"
		failed+=("$target")
		tail -n 40 "$new/$target.log" >&2
	fi
	rows+=("$(printf '| %-16s | %-22s | %4d s |' "$target ${words[*]:+…}" "$result" $((SECONDS - begun)))")
done
printf '| %-16s | %-22s | %6s |\n|%s|%s|%s|\n' target result time ------------------ ------------------------ --------
printf '%s\n' "${rows[@]}"
if ((${#failed[@]})); then
	echo "all-targets: failed: ${failed[*]}; see $logs" >&2
	exit 1
fi
