#!/bin/bash
# Runs a command in a virtual machine with a real rxe0, and exits with the command's status.
#
#   test/vm/run.sh 'CMD'     bash -c CMD, at the repository's root, as root
#   test/vm/run.sh           a shell
#   test/vm/run.sh 'CMD' ROLE [QEMU ARGUMENT]...     in a machine with another role: lab.sh
#
# Status 124: VM_TIMEOUT has passed. Status 125: the machine failed. See README.md.
set -euo pipefail

say() { echo "vm: $*" >&2; }
cmd=${1:-} role=${2:-solo}
[[ $role =~ ^[a-z]+$ ]] || { say "usage: run.sh ['CMD']: one argument, quoted"; exit 2; }
shift $(($# < 2 ? $# : 2)) # the other arguments are for QEMU
[[ -n $cmd || -t 0 ]] || { say "needs CMD, or a terminal for a shell"; exit 2; }

here=$(cd "$(dirname "$0")" && pwd -P)
repo=$(dirname "$(dirname "$here")")

ctl=$(mktemp -d "${TMPDIR:-/tmp}/rawverbs-vm.XXXXXX")
qemu=
# shellcheck disable=SC2317 # called by the trap
clean_up() {
	trap '' INT TERM HUP
	if [[ -n $qemu ]]; then
		kill "$qemu" 2>/dev/null || true
		wait "$qemu" || true
	fi
	rm -rf "$ctl"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

"$repo/tools/need.sh" vm
kernel_files=$("$here/kernel.sh")
kernel=${kernel_files%%$'\n'*} initramfs=${kernel_files#*$'\n'}

out=${VM_OUT:-$ctl/out}
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
inside=/run/out
if [[ -n ${VM_OUT:-} ]]; then inside=$out; fi

# The files that init and guest.sh read. init runs in busybox sh, not bash, so paths uses
# quotes that every shell understands.
quote() { printf "%s='%s'\n" "$1" "${2//\'/\'\\\'\'}"; }
{
	quote repo "$repo"
	quote modules "$kernel/lib/modules"
	quote VM_OUT "$inside"
	quote tty_size "$(stty size 2>/dev/null || echo 24 80)"
} >"$ctl/paths"
{
	echo export VM_OUT RAWVERBS_VM=1
	vm_env=${VM_ENV:-}
	names=$(compgen -e | grep '^RDMA_TEST_' || true)
	for name in PATH HOME LANG TERM $names ${vm_env//,/ }; do
		if [[ -n ${!name+set} ]]; then printf 'export %s=%q\n' "$name" "${!name}"; fi
	done
} >"$ctl/env"
cp "$here/guest.sh" "$ctl/"

if [[ -n $cmd ]]; then
	printf '%s\n' "$cmd" >"$ctl/cmd"
	: >"$ctl/stdout"
	# If stdout and stderr are one file, the machine sends one stream, to keep the order.
	if [[ ! /dev/fd/1 -ef /dev/fd/2 ]]; then : >"$ctl/stderr"; fi
	"$here/qemu.sh" "$kernel" "$initramfs" "$ctl" "$out" "$role" "$@" </dev/null >"$ctl/qemu.log" 2>&1 &
	qemu=$!
	tails=()
	follow() { setpriv --pdeathsig TERM tail -c +1 -s 0.05 -f --pid="$qemu" "$1" 2>/dev/null & tails+=($!); }
	follow "$ctl/stdout"
	if [[ -e $ctl/stderr ]]; then follow "$ctl/stderr" >&2; fi
else
	export VM_TIMEOUT=${VM_TIMEOUT:-0}
	say "booting; type exit to leave"
	"$here/qemu.sh" "$kernel" "$initramfs" "$ctl" "$out" "$role" "$@" -serial chardev:tty \
		-chardev stdio,id=tty,signal=off <&0 2>"$ctl/qemu.log" &
	qemu=$!
	tails=()
fi

ended=0
wait "$qemu" || ended=$?
qemu=
if ((${#tails[@]})); then wait "${tails[@]}" || true; fi

if [[ -s $ctl/status ]]; then exit "$(<"$ctl/status")"; fi
log=${XDG_CACHE_HOME:-$HOME/.cache}/rawverbs/vm/failed-$role.log
cat "$ctl/qemu.log" "$ctl/console" >"$log" 2>/dev/null || true
when=$([[ -e $ctl/booted ]] && echo "while CMD ran" || echo "before CMD")
if ((ended == 124 || ended == 137)); then
	say "stopped after VM_TIMEOUT=${VM_TIMEOUT:-600} s, $when (console: $log)"
	exit 124
fi
why=$(cat "$ctl/failed" 2>/dev/null || grep -aoE 'Kernel panic.*|vm-init: .*' "$log" | head -n1 ||
	grep -a -m1 . "$log" || echo "QEMU ended with status $ended and no message; too little VM_MEM?")
say "the machine failed $when: ${why%$'\r'} (console: $log)"
exit 125
