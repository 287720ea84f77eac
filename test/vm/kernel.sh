#!/bin/bash
# Downloads and unpacks the distribution's kernel, without installing it. Prints two lines:
# a directory with `vmlinuz` and `lib/modules`, and the path of the initramfs.
#
#   kernel.sh      # VM_KERNEL=linux-image-… selects another package
#
# The files are in the cache. A lock is held, and each result is made in a temporary
# directory and then renamed, so that interrupted and concurrent runs do no harm.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rawverbs/vm

# The modules that init loads, in this order; it loads the two groups in parallel.
root_modules=(virtio_pci 9p 9pnet_virtio overlay)
rdma_modules=(veth dummy virtio_net crc32_generic crc32_pclmul crc32c_generic ib_uverbs rdma_rxe sch_netem virtio_rng)
# These are built in, renamed or missing in some kernels. If crc32_generic exists, `rdma link
# add` needs it and otherwise fails with "No such file or directory".
optional=(crc32_generic crc32_pclmul crc32c_generic sch_netem virtio_rng)

say() { echo "vm: $*" >&2; }
die() { say "$@"; exit 1; }

tmp=
trap '[[ -z $tmp ]] || rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# choose_package META... prints the image package of the first meta package that apt knows.
choose_package() {
	local meta image
	for meta; do
		image=$(apt-cache depends "$meta" 2>/dev/null |
			grep -oE 'Depends: linux-image-[0-9][^ ]*' | head -n1) || continue
		echo "${image#Depends: }"
		return
	done
	return 1
}

refresh_lists() {
	say "refreshing apt's package lists"
	local as_root=()
	((EUID == 0)) || as_root=(sudo)
	"${as_root[@]}" apt-get -qq update </dev/null >&2
}

download() { (cd "$tmp/deb" && apt-get -q -o APT::Sandbox::User=root download "${packages[@]}" </dev/null >&2); }

# unpack_kernel PACKAGE downloads PACKAGE and unpacks it into $cache/PACKAGE.
unpack_kernel() {
	local image=$1 version=${1#linux-image-} packages deb
	packages=("$image")
	# Ubuntu has the modules in separate packages.
	for deb in "linux-modules-$version" "linux-modules-extra-$version"; do
		if apt-cache show "$deb" >/dev/null 2>&1; then packages+=("$deb"); fi
	done
	say "downloading ${packages[*]} (once; kept in $cache)"
	tmp=$(mktemp -d "$cache/tmp.XXXXXX")
	mkdir "$tmp/deb" "$tmp/kernel"
	download || { refresh_lists && download; } || die "could not download ${packages[*]}"
	for deb in "$tmp"/deb/*.deb; do dpkg -x "$deb" "$tmp/kernel"; done
	cd "$tmp/kernel"
	if [[ ! -d lib/modules ]]; then mv usr/lib lib; fi
	mv "boot/vmlinuz-$version" vmlinuz
	rm -rf boot usr
	/sbin/depmod -b . "$version"
	cd "$cache"
	chmod 755 "$tmp/kernel"
	mv -T "$tmp/kernel" "$cache/$image"
	rm -rf "$tmp"
	tmp=
}

# add_modules GROUP NAME... puts the modules and their dependencies into
# $tmp/root/modules/GROUP, uncompressed and numbered in loading order. Reads $kernel and
# $version.
add_modules() {
	local group=$1 name list what path n=100
	local -A seen=()
	shift
	mkdir -p "$tmp/root/modules/$group"
	for name; do
		if ! list=$(/sbin/modprobe --show-depends -d "$kernel" -S "$version" "$name" 2>/dev/null); then
			if [[ " ${optional[*]} " == *" $name "* ]]; then continue; fi
			die "kernel $version has no module $name"
		fi
		while read -r what path _; do
			if [[ $what != insmod || -n ${seen[$path]:-} ]]; then continue; fi
			seen[$path]=1
			name=$(basename "$path")
			case $path in
			*.xz) xz -dc "$path" ;;
			*.zst) zstd -qdc "$path" ;;
			*.gz) gzip -dc "$path" ;;
			*) cat "$path" ;;
			esac >"$tmp/root/modules/$group/$((n++))-${name%%.ko*}.ko"
		done <<<"$list"
	done
}

# build_initramfs KERNEL_DIRECTORY FILE builds the initramfs: busybox, init, modules.
build_initramfs() {
	local kernel=$1 target=$2 version
	version=$(basename "$kernel")
	version=${version#linux-image-}
	tmp=$(mktemp -d "$cache/tmp.XXXXXX")
	mkdir -p "$tmp"/root/{bin,proc,sys,dev,host,overlay,root}
	install -m 755 "$(command -v busybox)" "$tmp/root/bin/busybox"
	install -m 755 "$here/init" "$tmp/root/init"
	add_modules root "${root_modules[@]}"
	add_modules rdma "${rdma_modules[@]}"
	(cd "$tmp/root" && find . | cpio -o -H newc --quiet) >"$tmp/initramfs"
	mv "$tmp/initramfs" "$target"
	rm -rf "$tmp"
	tmp=
}

[[ $(uname -m) == x86_64 ]] || die "only x86_64 hosts are supported"
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9

image=${VM_KERNEL:-}
if [[ -z $image ]]; then
	# The cache keeps the choice, so that later runs need not ask apt.
	if [[ ! -s $cache/kernel ]]; then
		# The tests expect what rdma_rxe does in 6.12. Old lists may lack that kernel.
		image=$(choose_package linux-image-6.12-amd64) || {
			refresh_lists || true
			image=$(choose_package linux-image-6.12-amd64 linux-image-amd64 linux-image-generic)
		} || die "apt knows no linux-image package"
		echo "$image" >"$cache/kernel.$$"
		mv "$cache/kernel.$$" "$cache/kernel"
	fi
	image=$(<"$cache/kernel")
fi
kernel=$cache/$image
if [[ ! -d $kernel ]]; then
	rm -rf "$cache"/tmp.* # left by killed runs; this run holds the lock
	unpack_kernel "$image"
fi
hash=$(cat "$here/init" "$here/kernel.sh" "$(command -v busybox)" | sha256sum)
initramfs=$kernel/initramfs-${hash:0:16}
[[ -s $initramfs ]] || build_initramfs "$kernel" "$initramfs"
echo "$kernel"
echo "$initramfs"
