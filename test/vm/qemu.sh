#!/bin/bash
# Becomes QEMU, running one machine:
#
#   qemu.sh KERNEL INITRAMFS CTL OUT ROLE [QEMU ARGUMENT]...
#
# CTL and OUT are host directories that the machine can write. QEMU is killed
# when VM_TIMEOUT seconds have passed (status 124) and when its parent dies.
set -euo pipefail

kernel=$1 initramfs=$2 ctl=$3 out=$4 role=$5
shift 5
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rawverbs/vm

# mitigations=off nokaslr: emulation is slow enough. reboot=t panic=-1 with
# -no-reboot: a machine that ends, for whatever reason, ends QEMU. maxcpus=1: while the kernel
# boots it rewrites its own code, and when another emulated processor runs that code at that
# moment the kernel dies ("Oops: int3" in sched_clock_cpu); init starts the others later.
# tsc=reliable: on a busy host the clocks seem to drift apart, and the kernel would then
# rewrite the same code while all processors run.
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
# -erms: the kernel would copy from and to programs by REP MOVSB, which emulation
# does a byte at a time: half as fast.
tcg=(-accel "tcg,thread=multi" -cpu "max,-erms")
kvm=(-accel kvm -cpu host)

# A /dev/kvm that opens may still be unable to run a kernel (nested machines),
# so try it once per boot of the host and remember.
works_with_kvm() {
	local boot memo answer
	[[ -w /dev/kvm ]] || return
	boot=$(</proc/sys/kernel/random/boot_id)
	memo=$cache/kvm-$boot
	if [[ ! -s $memo ]]; then
		rm -f "$cache"/kvm-*
		answer=no
		if timeout 10 "${base[@]}" "${kvm[@]}" -serial stdio -append "console=ttyS0 quiet panic=-1 reboot=t vm_role=probe" \
			</dev/null 2>/dev/null | grep -q 'probe ok'; then answer=yes; fi
		echo $answer >"$memo.$$"
		mv "$memo.$$" "$memo"
	fi
	[[ $(<"$memo") == yes ]]
}
# VM_ICOUNT: time is the instructions executed, 2 ns each, one processor after the other.
# So a measurement does not depend on what else the host does.
counted=(-accel "tcg,thread=single" -cpu "max,-erms" -icount "shift=1,sleep=off")
if [[ -n ${VM_ICOUNT:-} ]]; then accel=("${counted[@]}")
elif works_with_kvm; then accel=("${kvm[@]}")
else accel=("${tcg[@]}"); fi

# --foreground: the terminal stays readable, and no process group of its own.
exec setpriv --pdeathsig TERM timeout --foreground -k 5 "${VM_TIMEOUT:-600}" \
	setpriv --pdeathsig KILL "${base[@]}" "${accel[@]}" -net none \
	-device virtio-rng-pci \
	-virtfs "$(share root / ,readonly=on)" \
	-virtfs "$(share ctl "$ctl" "")" \
	-virtfs "$(share out "$out" "")" \
	-serial "file:$ctl/console" -append "${append//$'\n'/}" "$@"
