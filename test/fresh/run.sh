#!/bin/bash
# Runs a command in a clone of HEAD on a pristine Debian 12, and exits with its status:
# what a stranger with a fresh machine sees.
#
#   test/fresh/run.sh ['CMD']     bash -c CMD in the clone; default: make demo && make test
#
# Variables, a second way in and what is kept: README.md beside this file.
#
# 1. mmdebstrap makes the root once; the cache keeps it.
# 2. Each run has an overlay of the root, so a run never sees what another installed.
# 3. enter.sh mounts everything in a mount namespace of its own: when the command ends,
#    in whatever way, the kernel takes the mounts away with the namespace.
set -Eeuo pipefail

say() { echo "fresh: $*" >&2; }
trap 'say "the fresh machine could not be made (line $LINENO of run.sh)"; exit 125' ERR

(($# <= 1)) || { say "usage: run.sh ['CMD']: one argument, quoted"; exit 2; }
cmd=${1:-make demo && make test}
here=$(cd "$(dirname "$0")" && pwd -P)
repo=$(dirname "$(dirname "$here")")

"$repo/tools/need.sh" fresh

as_root=()
if ((EUID != 0)); then as_root=(sudo); fi
# One directory for root and one for each user: the files belong to root.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rawverbs/fresh
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -n 9 || { say "waiting for another run to end"; flock 9; }

# What a run left that was killed; a live one would have the lock.
"${as_root[@]}" rm -rf "$cache"/run.*

# mirror: the host's sources, if the host is Debian 12; else Debian's default mirror.
mirror() {
	local codename
	# shellcheck source=/dev/null
	codename=$(. /etc/os-release && echo "${ID:-}-${VERSION_CODENAME:-}")
	[[ $codename == debian-bookworm ]] || return 0
	# shellcheck disable=SC2016 # apt expands it
	apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
		grep -E ' bookworm(-updates|-security)? ' || true
}

# apt_settings: the host's proxy and certificate settings.
apt_settings() {
	apt-config dump --format '%f "%v";%n' 2>/dev/null |
		grep -E '^Acquire::(http|https|ftp)(::[^:"]+)?::?(Proxy|Verify-Peer|CaInfo|CaPath|SslCert|SslKey)[ :]' || true
}

make_root() { # make_root DIRECTORY: a pristine root
	say "making a pristine Debian 12 (once; kept in $cache)"
	# Without sources of the host, mmdebstrap takes Debian's default mirror.
	local sources source=()
	sources=$(mirror)
	if [[ -n $sources ]]; then source=(-); fi
	"${as_root[@]}" rm -rf "$1.new"
	apt_settings >"$cache/apt.conf"
	"${as_root[@]}" mmdebstrap --quiet --variant=apt --include=git,make,ca-certificates,sudo \
		--aptopt="$cache/apt.conf" bookworm "$1.new" "${source[@]}" <<<"$sources" >&2
	"${as_root[@]}" mv "$1.new" "$1"
}
# Another list of packages, or other settings, are another root.
pristine=root-$( (cat "$0"; mirror; apt_settings) | sha256sum | head -c 16)
if [[ ! -d $cache/$pristine ]]; then
	"${as_root[@]}" rm -rf "$cache"/root-*
	make_root "$cache/$pristine"
fi

# What this run writes. sudo's password, if any, has been asked for by now.
work=$(mktemp -d "$cache/run.XXXXXX")
inside=
# shellcheck disable=SC2317 # called by the trap
clean_up() {
	trap '' INT TERM HUP
	if [[ -n $inside ]]; then
		"${as_root[@]}" kill -KILL "$inside" 2>/dev/null || true
		wait "$inside" || true
	fi
	"${as_root[@]}" rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
git -C "$repo" diff --quiet HEAD -- 2>/dev/null || say "what is not committed is left out"
git clone -q --no-hardlinks "$repo" "$work/clone"
git -C "$work/clone" remote remove origin
go env GOROOT GOMODCACHE GOCACHE >"$work/go"
mkdir -p "$(go env GOMODCACHE)" "$(go env GOCACHE)" # as the user who has them
{
	for name in GOPROXY GOFLAGS GOSUMDB GONOSUMDB GONOPROXY GOPRIVATE GOINSECURE; do
		printf '%s=%s\0' "$name" "$(go env $name)"
	done
	for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY TERM CI VM_SMP; do
		if [[ -n ${!name+set} ]]; then printf '%s=%s\0' "$name" "${!name}"; fi
	done
} >"$work/env"
certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
if [[ -r $certificates ]]; then cp "$certificates" "$work/certificates"; fi

# A process namespace: what CMD leaves running ends with it, and it ends with us.
status=0
"${as_root[@]}" setpriv --pdeathsig KILL env --default-signal=INT,QUIT unshare --mount --propagation private --pid --fork --kill-child \
	"$here/enter.sh" "$cache" "$pristine" "$work" "${FRESH_USER:+1}" "$cmd" <&0 &
inside=$!
wait "$inside" || status=$?
inside=
exit "$status"
