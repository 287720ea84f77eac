#!/bin/bash
# Runs every target of `make help` once and prints a table of results and times:
#
#   tools/all-targets.sh               every target
#   tools/all-targets.sh TARGET...     only these targets
#   tools/all-targets.sh --without 'TARGET...'    all targets except these
#
# The runs are short where possible, because they only check that each target works. The
# output of each is in out/all-targets/TARGET.log. Fails if a target failed.
set -euo pipefail
cd "$(dirname "$0")/.."

# The arguments of a short run. A target without a line here runs without arguments.
declare -A arguments=(
	[install]="DESTDIR=out/installed"
	[fuzz]="FUZZ=2s"
	[stress]="STRESS=20s RUN=oob"
	[leaks]="LEAKS=200"
	[faults]="RUN=^kill/in_RTS/"
	[faults-rxe]="RUN=^kill/in_RTS/.*/send"
	[test-c-soak]="SOAK=5"
	[soak]="SOAK_CONNECTS=200 SOAK_CLIENTS=60 SOAK_PROCESSES=4 SOAK_RXE=16"
	[bench]="ROUNDS=1"
	[bench-cabi]="ROUNDS=1"
	[bench-lossy]="ROUNDS=1"
	[bench-go]="BENCHTIME=1x"
	[bench-soft]="BENCHTIME=200ms"
	[bench-net]="NET_TIME=20ms"
	[test-net]="NET_OPS=20000 NET_TIMES=1"
	[bench-rxe]="BENCHTIME=200ms"
	[bench-c]="RUN=WaitWake VM_ICOUNT=1 VM_SMP=1"
	[fresh]="CMD=make\ demo"
	[vm]="CMD=rdma\ link"
	[lab]="JOB=send"
	[lab-web]="FOR=2s"
	[test-web]="RUN=starts"
	[lab-pictures]="IMAGES=out/lab-pictures"
)
# Targets that remove files run before the targets that create them.
first=(clean vm-clean fresh-clean)
# The parts of these targets run one by one instead.
whole=(test test-more)
never=(all-targets help)

listed() { # prints the targets of make help, including those of test/vm/vm.mk
	make help | sed -nE 's/^  make ([a-z0-9-]+).*/\1/p; s/^  ([a-z0-9-]+) .*/\1/p' | grep -vx make | awk '!seen[$0]++'
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
# The target clean removes out/, so the logs are elsewhere until the end.
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
		# Without a device the target must ask for one.
		result="ok: asks for a device"
		grep -q '^test-device needs RDMA_TEST_DEVICE' "$new/$target.log" || status=1
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
