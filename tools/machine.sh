#!/bin/bash
# Says what this machine lacks for `make test`, and what gives it. It takes a moment, and installs and
# changes nothing. Fails if something is missing.
#
#   tools/machine.sh
#
# Packages are not its subject: tools/need.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

# In GiB. Two machines of 2 GiB run at once, beside a compiler; packages, caches and the kernel take the disk.
need_memory=6 need_disk=8

lacks=()
lack() { lacks+=("  $1; $2"); } # lack WHAT REMEDY

[[ $(uname -sm) == "Linux x86_64" ]] || lack "this is $(uname -sm), and the machine with rxe0 runs on Linux x86_64" \
	"here make check is the test"
command -v go >/dev/null || lack "no Go" "get Go 1.26 or later: https://go.dev/dl"
if ! command -v apt-get >/dev/null; then
	lack "no apt-get, which installs QEMU, Chromium and others" "use Debian or Ubuntu, also in a container; CONTRIBUTING.md has the command"
elif ((EUID != 0)) && ! command -v sudo >/dev/null; then
	lack "not root, and no sudo, to install packages" "run it as root in a container; CONTRIBUTING.md has the command"
fi

# The least of what the system and the control group leave.
memory=$(awk '$1 == "MemAvailable:" {printf "%.0f", $2 * 1024}' /proc/meminfo 2>/dev/null || true)
if [[ -z $memory ]]; then
	lack "/proc is not mounted" "mount -t proc proc /proc"
else
	limit=$(cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | head -n 1 || true)
	if [[ $limit =~ ^[0-9]+$ ]] && ((limit < memory)); then memory=$limit; fi
	((memory >= need_memory << 30)) || lack "$((memory >> 20)) MiB of memory are free, and the tests need $need_memory GiB" \
		"end other programs, or raise the limit of the container (docker run --memory)"
fi
for dir in . "${TMPDIR:-/tmp}" "${XDG_CACHE_HOME:-${HOME:-/root}/.cache}"; do
	while [[ ! -d $dir ]]; do dir=$(dirname "$dir"); done
	free=$(df --output=avail -B1 "$dir" | tail -n 1)
	((free >= need_disk << 30)) || { lack "$((free >> 20)) MiB are free on the disk of $(cd "$dir" && pwd), and the tests need $need_disk GiB" \
		"free some, or choose another disk with TMPDIR and XDG_CACHE_HOME"; break; }
done

getent hosts localhost >/dev/null || lack "localhost has no address, and other people's programs look it up" \
	"echo '127.0.0.1 localhost' >>/etc/hosts"
[[ $(cat /sys/class/net/lo/operstate 2>/dev/null) != down ]] || lack "the loopback interface is down" "ip link set lo up"
files=$(ulimit -n)
[[ $files == unlimited ]] || ((files >= 1024)) || lack "a process may open $files files, and the tests need 1024" "ulimit -n 1024"

if ((${#lacks[@]})); then
	echo "make test: this machine lacks:" >&2
	printf '%s\n' "${lacks[@]}" >&2
	echo "make check needs only Go." >&2
	exit 1
fi
