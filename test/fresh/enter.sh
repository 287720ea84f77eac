#!/bin/bash
# The inner part of run.sh: process 1 of new mount and process namespaces, as root.
#
#   enter.sh CACHE ROOT WORK WAYS CMD
#
# WAYS has the words of: user (an ordinary user with sudo), cold (empty caches of Go), docker (only what a
# container has by default).
#
# The script undoes nothing: the mounts end with the namespaces.
set -Eeuo pipefail
trap 'echo "fresh: cannot set up the fresh machine (line $LINENO of enter.sh)" >&2; exit 125' ERR

cache=$1 base=$1/$2 work=$3 ways=" $4 " cmd=$5
{ read -r goroot; read -r host_modules; read -r host_build; } <"$work/go"
user=
if [[ $ways == *" user "* ]]; then
	user=1
	name=stranger home=/home/stranger
else
	name=root home=/root
fi

# overlay LOWER NAME TARGET mounts LOWER at TARGET; writes go to $work/NAME.
overlay() {
	mkdir -p "$work/$2/upper" "$work/$2/work" "$3"
	# If the cache itself is on an overlay, as in a container, use memory for the writes.
	if ! mount -t overlay overlay -o "lowerdir=$1,upperdir=$work/$2/upper,workdir=$work/$2/work" "$3" 2>/dev/null; then
		mount -t tmpfs tmpfs "$work/$2"
		mkdir "$work/$2/upper" "$work/$2/work"
		mount -t overlay overlay -o "lowerdir=$1,upperdir=$work/$2/upper,workdir=$work/$2/work" "$3"
	fi
}

root=$work/root
overlay "$base" system "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --make-rslave "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root"/dev/{pts,shm}
for device in null zero full random urandom tty kvm; do
	if [[ -e /dev/$device ]]; then
		: >"$root/dev/$device"
		mount --bind "/dev/$device" "$root/dev/$device"
	fi
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
for n in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${n%:*}" "$root/dev/${n#*:}"; done

# The network is that of the host: use its name resolution and certificates.
rm -f "$root/etc/resolv.conf"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
if [[ -e $work/certificates ]]; then cp "$work/certificates" "$root/etc/ssl/certs/ca-certificates.crt"; fi

# All runs share the downloaded packages.
mkdir -p "$cache/packages/partial" "$root/var/cache/apt/archives"
mount --bind "$cache/packages" "$root/var/cache/apt/archives"
echo 'Binary::apt-get::APT::Keep-Downloaded-Packages "true";' >"$root/etc/apt/apt.conf.d/99fresh"

if [[ -n $user ]]; then
	chroot "$root" useradd --create-home --shell /bin/bash "$name"
	echo "$name ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$name"
fi
chmod 700 "$root$home"
mkdir -p "$root$goroot"
mount --bind "$goroot" "$root$goroot"
mount -o remount,bind,ro "$root$goroot"
if [[ $ways == *" cold "* ]]; then
	mkdir -p "$root$home/go/pkg/mod" "$root$home/.cache/go-build"
else
	overlay "$host_modules" modules "$root$home/go/pkg/mod"
	overlay "$host_build" build "$root$home/.cache/go-build"
fi
mkdir -p "$cache/vm-$name" "$root$home/.cache/rawverbs/vm"
mount --bind "$cache/vm-$name" "$root$home/.cache/rawverbs/vm"
mv "$work/clone" "$root$home/rawverbs"

if [[ -n $user ]]; then
	# Root has written the caches. The user can read them. Now the user can also add files,
	# and renew entries of the build cache (*-a), which Go opens for writing.
	chroot "$root" chown "$name:" "$home" "$home/go" "$home/go/pkg" "$home/.cache" "$home/.cache/rawverbs"
	chroot "$root" find "$home/go/pkg/mod" "$home/.cache" \( -type d -o -name lock -o -name '*.lock' -o -name '*-a' \) -exec chown "$name:" {} +
fi
# git refuses a clone of another owner.
chroot "$root" chown -R "$name:" "$home/rawverbs"

environment=(HOME="$home" USER="$name" LOGNAME="$name" LANG=C.UTF-8
	PATH="$goroot/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
while IFS= read -r -d '' pair; do environment+=("$pair"); done <"$work/env"

exec 9>&- # only run.sh holds the lock
# setpriv needs no session and no password files, unlike su, and sets the user's groups.
as=()
if [[ -n $user ]]; then as=(setpriv --reuid "$name" --regid "$name" --init-groups); fi
cd "$root"
if [[ $ways == *" docker "* ]]; then
	# Docker's default capabilities. In this chroot the kernel refuses user namespaces, as Docker does.
	kept=-all
	for capability in chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write setfcap; do
		kept+=,+$capability
	done
	as=(setpriv --bounding-set="$kept" --inh-caps=-all "${as[@]}")
else
	# Replace the namespace's root: after a plain chroot the kernel forbids user namespaces.
	mount --move . /
fi
# shellcheck disable=SC2016 # the inner bash expands it
exec chroot . env -i "${environment[@]}" "${as[@]}" bash -c 'cd "$HOME/rawverbs" && eval "$1"' fresh "$cmd"
