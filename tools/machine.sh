#!/bin/bash
# Says what this machine lacks for make test, besides packages, and what gives it. Fails if it lacks something.
set -euo pipefail
cd "$(dirname "$0")/.."

memory=6 disk=8 # GiB: for two machines of 2 GiB beside a compiler; for packages, caches and the kernel
lacks=()
lack() { lacks+=("  $1; $2"); } # lack WHAT REMEDY

[[ $(uname -sm) == "Linux x86_64" ]] || lack "this is $(uname -sm), and the tests need Linux x86_64" "here make check is the test"

# The least of what the system and the control group leave.
free=$({ awk '$1 == "MemAvailable:" {printf "%.0f\n", $2 * 1024}' /proc/meminfo
	cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes || true; } 2>/dev/null | grep -E '^[0-9]+$' | sort -n | head -n 1) || free=0
((free >= memory << 30)) || lack "$((free >> 20)) MiB of memory are free; the tests need $memory GiB" "end other programs"
for dir in . "${TMPDIR:-/tmp}" "${XDG_CACHE_HOME:-$HOME}"; do
	[[ -d $dir ]] || continue
	free=$(df --output=avail -B1 "$dir" | tail -n 1)
	((free >= disk << 30)) || lack "$((free >> 20)) MiB are free on the disk of $dir; the tests need $disk GiB" "free some, or set TMPDIR and XDG_CACHE_HOME"
done

getent hosts localhost >/dev/null || lack "localhost has no address" "echo '127.0.0.1 localhost' >>/etc/hosts"

((${#lacks[@]})) || exit 0
printf '%s\n' "make test: this machine lacks:" "${lacks[@]}" "make check needs only Go." >&2
exit 1
