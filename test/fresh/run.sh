#!/bin/bash
# Runs a command in a clone of HEAD on a pristine Debian 12, as a new user would, and exits
# with the command's status.
#
#   test/fresh/run.sh ['CMD']     bash -c CMD in the clone; default: make demo && make check && make test
#
# README.md in this directory describes the variables and the caches.
#
# 1. mmdebstrap makes the root once; the cache keeps it.
# 2. Each run has its own overlay of the root, so a run does not see packages that another
#    run has installed.
# 3. enter.sh makes all mounts in a new mount namespace. When the command ends, even if it is
#    killed, the kernel removes the mounts with the namespace.
set -Eeuo pipefail

say() { echo "fresh: $*" >&2; }
trap 'say "cannot set up the fresh machine (line $LINENO of run.sh)"; exit 125' ERR

(($# <= 1)) || { say "usage: run.sh ['CMD']: one argument, quoted"; exit 2; }
cmd=${1:-make demo && make check && make test}
here=$(cd "$(dirname "$0")" && pwd -P)
repo=$(dirname "$(dirname "$here")")

"$repo/tools/need.sh" --install fresh

as_root=()
if ((EUID != 0)); then as_root=(sudo); fi
# Each user has a cache, in the user's home. Its files belong to root.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rawverbs/fresh
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -n 9 || { say "waiting for another run to end"; flock 9; }

# Remove files of killed runs; a live run would hold the lock.
"${as_root[@]}" rm -rf "$cache"/run.*

# mirror prints the host's sources if the host is Debian 12, and nothing otherwise.
mirror() {
	local codename
	# shellcheck source=/dev/null
	codename=$(. /etc/os-release && echo "${ID:-}-${VERSION_CODENAME:-}")
	[[ $codename == debian-bookworm ]] || return 0
	# shellcheck disable=SC2016 # apt expands it
	apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
		grep -E ' bookworm(-updates|-security)? ' || true
}

# apt_settings prints the host's proxy and certificate settings of apt.
apt_settings() {
	apt-config dump --format '%f "%v";%n' 2>/dev/null |
		grep -E '^Acquire::(http|https|ftp)(::[^:"]+)?::?(Proxy|Verify-Peer|CaInfo|CaPath|SslCert|SslKey)[ :]' || true
}

make_root() { # make_root DIRECTORY makes a pristine root
	say "making a pristine Debian 12 (once; kept in $cache)"
	# Without the host's sources, mmdebstrap uses Debian's default mirror.
	local sources source=()
	sources=$(mirror)
	if [[ -n $sources ]]; then source=(-); fi
	"${as_root[@]}" rm -rf "$1.new"
	apt_settings >"$cache/apt.conf"
	"${as_root[@]}" mmdebstrap --quiet --variant=apt --include=git,make,ca-certificates,sudo \
		--aptopt="$cache/apt.conf" bookworm "$1.new" "${source[@]}" <<<"$sources" >&2
	"${as_root[@]}" mv "$1.new" "$1"
}
# Other sources, settings or packages give another root.
pristine=root-$( (cat "$0"; mirror; apt_settings) | sha256sum | head -c 16)
if [[ ! -d $cache/$pristine ]]; then
	"${as_root[@]}" rm -rf "$cache"/root-*
	make_root "$cache/$pristine"
fi

# The files of this run. If sudo needs a password, it has asked for it by now.
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
git -C "$repo" diff --quiet HEAD -- 2>/dev/null || say "uncommitted changes are left out"
git clone -q --no-hardlinks "$repo" "$work/clone"
git -C "$work/clone" remote remove origin
go env GOROOT GOMODCACHE GOCACHE >"$work/go"
mkdir -p "$(go env GOMODCACHE)" "$(go env GOCACHE)" # as the current user, not as root
{
	for name in GOPROXY GOFLAGS GOSUMDB GONOSUMDB GONOPROXY GOPRIVATE GOINSECURE; do
		printf '%s=%s\0' "$name" "$(go env $name)"
	done
	if command -v npm >/dev/null; then printf 'npm_config_registry=%s\0' "$(npm config get registry)"; fi
	for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY TERM CI VM_SMP; do
		if [[ -n ${!name+set} ]]; then printf '%s=%s\0' "$name" "${!name}"; fi
	done
} >"$work/env"
certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
if [[ -r $certificates ]]; then cp "$certificates" "$work/certificates"; fi

# In a process namespace, processes that CMD leaves running end with CMD. The namespace ends
# with this script.
status=0
"${as_root[@]}" setpriv --pdeathsig KILL env --default-signal=INT,QUIT unshare --mount --propagation private --pid --fork --kill-child \
	"$here/enter.sh" "$cache" "$pristine" "$work" "${FRESH_USER:+user} ${FRESH_COLD:+cold} ${FRESH_DOCKER:+docker}" "$cmd" <&0 &
inside=$!
wait "$inside" || status=$?
inside=
exit "$status"
