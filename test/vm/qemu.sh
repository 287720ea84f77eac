#!/bin/bash
# Executes QEMU with one machine:
#
#   qemu.sh KERNEL INITRAMFS CTL OUT ROLE [QEMU ARGUMENT]...
#
# CTL and OUT are host directories that the machine can write. QEMU is killed after
# VM_TIMEOUT seconds (status 124), and when its parent dies.
set -euo pipefail

kernel=$1 initramfs=$2 ctl=$3 out=$4 role=$5
shift 5
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rawverbs/vm

# mitigations=off nokaslr: make emulation faster.
# reboot=t panic=-1 and -no-reboot: QEMU ends when the machine ends for any reason.
# maxcpus=1: the booting kernel rewrites its own code. It dies if another emulated processor
#   runs that code at that moment ("Oops: int3" in sched_clock_cpu). init starts the other
#   processors later.
# tsc=reliable: on a busy host the clocks seem to drift apart. The kernel would then rewrite
#   the same code while all processors run.
append="console=ttyS0 quiet loglevel=5 panic=-1 reboot=t nokaslr mitigations=off
 no_timer_check maxcpus=1 tsc=reliable random.trust_cpu=on vm_role=$role"

# A comma in a QEMU option's value is written twice.
share() { # share TAG DIRECTORY OPTIONS
	echo "local,mount_tag=$1,path=${2//,/,,},security_model=none,multidevs=remap$3"
}

base=(
	qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none
	-smp "${VM_SMP:-2}" -m "${VM_MEM:-2G}"
	-kernel "$kernel/vmlinuz" -initrd "$initramfs"
)
# -erms: otherwise the kernel copies with REP MOVSB, which emulation executes one byte at a
# time: half as fast.
tcg=(-accel "tcg,thread=multi" -cpu "max,-erms")
kvm=(-accel kvm -cpu host)

# In nested machines /dev/kvm may exist but fail to run a kernel. Test it once per boot of
# the host and store the result.
works_with_kvm() {
	local boot memo answer
	[[ -w /dev/kvm ]] || return
	boot=$(</proc/sys/kernel/random/boot_id)
	memo=$cache/kvm-$boot
	if [[ ! -s $memo ]]; then
		rm -f "$cache"/kvm-*
		answer=no
		if timeout 30 "${base[@]}" "${kvm[@]}" -serial stdio -append "console=ttyS0 quiet panic=-1 reboot=t vm_role=probe" \
			</dev/null 2>/dev/null | grep -q 'probe ok'; then answer=yes; fi
		echo $answer >"$memo.$$"
		mv "$memo.$$" "$memo"
	fi
	[[ $(<"$memo") == yes ]]
}
# VM_ICOUNT: the machine's time is the number of executed instructions, 2 ns each, on one
# processor after the other. Measurements then do not depend on the host's other load.
counted=(-accel "tcg,thread=single" -cpu "max,-erms" -icount "shift=1,sleep=off")
if [[ -n ${VM_ICOUNT:-} ]]; then accel=("${counted[@]}")
elif works_with_kvm; then accel=("${kvm[@]}")
else accel=("${tcg[@]}"); fi

# --foreground: QEMU can read the terminal and stays in this process group.
exec setpriv --pdeathsig TERM timeout --foreground -k 5 "${VM_TIMEOUT:-600}" \
	setpriv --pdeathsig KILL "${base[@]}" "${accel[@]}" -net none \
	-device virtio-rng-pci \
	-virtfs "$(share root / ,readonly=on)" \
	-virtfs "$(share ctl "$ctl" "")" \
	-virtfs "$(share out "$out" "")" \
	-serial "file:$ctl/console" -append "${append//$'\n'/}" "$@"
