#!/bin/bash
# Makes the packages, installs them and uses what is installed. It changes the system, so
# `make test-packages` runs it on a pristine Debian (test/fresh).
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "packages: $*" >&2; exit 1; }
as_root=()
if ((EUID != 0)); then as_root=(sudo); fi

make packages
(cd out/packages && sha256sum --quiet -c SHA256SUMS)
"${as_root[@]}" apt-get -q update >/dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends rpm systemd man-db >/dev/null

# uses DIRECTORY NAME runs a job with a DIRECTORY's programs, and a certificate.
uses() {
	local work server
	work=$(mktemp -d)
	"$1/rdma_lab" tls "$work/lab" --host 127.0.0.1 >/dev/null
	"$1/rdma_server" --once --quiet --tls "$work/lab/server" --listen 127.0.0.1 soft0 18599 &
	server=$!
	for _ in {1..50}; do
		if (: >/dev/tcp/127.0.0.1/18599) 2>/dev/null; then break; fi
		sleep 0.1
	done
	"$1/rdma_client" --quiet --tls "$work/lab/client" 127.0.0.1 soft0 18599 || fail "$2: the client failed"
	wait "$server" || fail "$2: the server failed"
	"$1/rawverbs" run -- true || fail "$2: rawverbs does not find its libraries"
	rm -rf "$work"
	echo "packages: the programs of the $2 work"
}

# The Debian package: it installs, works, has manual pages and a valid unit, and leaves nothing.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends ./out/packages/*.deb
uses /usr/bin deb
for page in rdma_server rdma_client; do
	gzip -dc "/usr/share/man/man1/$page.1.gz" | grep -q '^\.TH' || fail "deb: no manual page of $page"
done
systemd-analyze verify --man=no /usr/lib/systemd/system/rdma_server.service || fail "deb: the unit is not valid"
systemd-analyze security --offline=yes --threshold=18 --no-pager /usr/lib/systemd/system/rdma_server.service >/tmp/security ||
	fail "deb: the unit has more rights than it should: $(tail -n 1 /tmp/security)"
tail -n 1 /tmp/security
"${as_root[@]}" apt-get -qy purge rawverbs >/dev/null
[[ ! -e /usr/bin/rdma_server && ! -e /etc/default/rdma_server ]] || fail "deb: purge left files"

# The archive: it works where it is unpacked.
unpacked=$(mktemp -d)
tar -C "$unpacked" -xzf out/packages/*.tar.gz
uses "$unpacked"/*/bin archive

# The RPM package: the same files, owned by root, and no scripts.
rpm -K --nosignature out/packages/*.rpm
rpm -qpl out/packages/*.rpm | sort >/tmp/rpm.files
for file in /usr/bin/{rdma_server,rdma_client,rdma_lab,rawverbs} /usr/lib/rawverbs/librawverbs{,-core}.so \
	/usr/lib/systemd/system/rdma_server.service /etc/default/rdma_server /usr/share/man/man1/rdma_{server,client}.1.gz; do
	grep -qx "$file" /tmp/rpm.files || fail "rpm: no $file"
done
[[ -z $(rpm -qp --scripts out/packages/*.rpm) ]] || fail "rpm: it has scripts"
rpm -qp --queryformat '[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]' out/packages/*.rpm | sort -u | grep -qx root:root || fail "rpm: files of others than root"
rpm -qp --requires out/packages/*.rpm | grep -qx glibc || fail "rpm: it does not require glibc"
echo "packages: the deb installs and works, the archive works, the rpm has its files"
