#!/bin/bash
# Makes the packages, installs them and uses what is installed. It changes the system, so
# `make test-packages` runs it on a pristine Debian (test/fresh).
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "packages: $*" >&2; exit 1; }
as_root=()
if ((EUID != 0)); then as_root=(sudo); fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qy "$@" >/dev/null; }
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# Versions sort by age: those of commits before the first tag, and those around tags.
versions() {
	local commit dir=$PWD tag
	for commit in $(git rev-list --first-parent --reverse -n 200 HEAD); do deploy/version.sh "$commit"; done
	git init -q "$made/repository"
	cd "$made/repository"
	for tag in 1.2.3 '' '' 1.3.0-rc1 '' 1.3.0 1.3.1; do
		git -c user.name=test -c user.email=test@localhost commit -q --allow-empty -m test
		if [[ -n $tag ]]; then git tag "v$tag"; fi
		"$dir/deploy/version.sh"
	done
}

tools/need.sh --install build
make packages
cp -r out/packages "$made/old"
VERSION=1.2.3 make packages
cp -r out/packages "$made/new"
(cd out/packages && sha256sum --quiet -c SHA256SUMS)
apt update
apt install --no-install-recommends rpm systemd-sysv systemd-container dbus man-db lintian dpkg-dev

last=
while read -r version; do
	if [[ -n $last ]]; then
		dpkg --compare-versions "$last-1" lt "$version-1" || fail "for dpkg $version is not above $last"
		(($(rpm --eval "%{lua:print(rpm.vercmp('$last', '$version'))}") < 0)) || fail "for rpm $version is not above $last"
	fi
	last=$version
done < <(versions)
[[ $last == 1.3.1 ]] || fail "the versions end with $last"
echo "packages: each commit's version is above the one before, for dpkg and for rpm; the last is $last"

# uses VERSION DIRECTORY SERVER CLIENT runs a job with a DIRECTORY's programs, and a certificate.
uses() {
	local work server program
	work=$(mktemp -d)
	for program in "$2"/{rdma_lab,rawverbs,"$3","$4"}; do
		[[ $("$program" --version) == *" v$1" ]] || fail "$program: $("$program" --version), want v$1"
	done
	"$2/rdma_lab" tls "$work/lab" --host 127.0.0.1 >/dev/null
	"$2/$3" --once --quiet --tls "$work/lab/server" --listen 127.0.0.1 soft0 18599 &
	server=$!
	for _ in {1..50}; do
		if (: >/dev/tcp/127.0.0.1/18599) 2>/dev/null; then break; fi
		sleep 0.1
	done
	"$2/$4" --quiet --tls "$work/lab/client" 127.0.0.1 soft0 18599 || fail "$2: the client failed"
	wait "$server" || fail "$2: the server failed"
	"$2/rawverbs" run -- true || fail "$2: rawverbs does not find its libraries"
	rm -rf "$work"
	echo "packages: the programs in $2 work, as version $1"
}

# The Debian package: what lintian calls an error, what it needs, and what is in it.
deb=$(realpath out/packages/*.deb)
lintian --fail-on error "$deb" || fail "deb: lintian has errors"
[[ $(dpkg-deb -f "$deb" License) == MIT ]] || fail "deb: the licence is $(dpkg-deb -f "$deb" License)"
mkdir -p "$made/shlibs/debian"
echo 'Source: rawverbs' >"$made/shlibs/debian/control"
dpkg-deb -x "$deb" "$made/shlibs/debian/rawverbs"
needs=$(cd "$made/shlibs" && dpkg-shlibdeps -O debian/rawverbs/usr/{bin/{rdma_lab,rawverbs},lib/rawverbs/{*.so,bin/*}} 2>/dev/null)
[[ $needs == "shlibs:Depends=$(dpkg-deb -f "$deb" Depends)" ]] || fail "deb: it needs $(dpkg-deb -f "$deb" Depends); dpkg-shlibdeps says $needs"

# Beside Debian's rdmacm-utils, which has an rdma_server and an rdma_client, in both orders.
for order in "rdmacm-utils $deb" "$deb rdmacm-utils"; do
	for package in $order; do apt install --no-install-recommends "$package"; done
	dpkg -S /usr/bin/rdma_server | grep -q ^rdmacm-utils: || fail "deb: /usr/bin/rdma_server is not of rdmacm-utils"
	uses 1.2.3 /usr/bin rawverbs-server rawverbs-client
	[[ $(PATH=/usr/lib/rawverbs/bin:$PATH rdma_server --version) == *" v1.2.3" ]] || fail "deb: PATH does not choose rdma_server"
	dpkg -L rdmacm-utils | while read -r file; do if [[ ! -d $file ]]; then echo "$file"; fi; done | sort >"$made/others"
	if [[ $package == rdmacm-utils ]]; then break; fi # the rest of the tests has both
	apt purge rawverbs rdmacm-utils
done
echo "packages: the deb installs before and after rdmacm-utils"

pages=$(dpkg -L rawverbs | grep -c '/man1/.*gz$')
((pages == 4)) || fail "deb: $pages manual pages, want 4"
for page in rawverbs rawverbs-client rawverbs-server rdma_lab; do
	complaints=$(man --warnings "$page" 2>&1 >"$made/page") || fail "deb: no manual page of $page"
	[[ -z $complaints ]] || fail "deb: the manual page of $page: $complaints"
	! grep -q cobra "$made/page" || fail "deb: the manual page of $page names cobra"
	sed -n '/^SEE ALSO/,$p' "$made/page" | grep -oE '[a-z_-]+\(1\)' | while read -r other; do
		man -w 1 "${other%(1)}" >/dev/null || fail "deb: the manual page of $page names $other"
	done
	bash -c "source /usr/share/bash-completion/completions/$page && complete -p $page" >/dev/null || fail "deb: bash does not complete $page"
	grep -q "^#compdef $page\$" /usr/share/zsh/vendor-completions/* || fail "deb: zsh does not complete $page"
	grep -q "^complete -c $page " "/usr/share/fish/vendor_completions.d/$page.fish" || fail "deb: fish does not complete $page"
done
echo "packages: four manual pages, and completions of bash, zsh and fish"

links=0
while IFS=: read -r page link; do
	link=${link#](} links=$((links + 1))
	[[ -e ${page%/*}/${link%[)#]} ]] || fail "deb: $page links to ${link%[)#]}, which is not there"
done < <(grep -rohE --include='*.md' --with-filename '\]\([^)#: ]+[)#]' /usr/share/doc/rawverbs)
((links > 100)) || fail "deb: only $links links in the documents"
echo "packages: the $links links of the documents lead to installed files"

systemd-analyze verify --man=no /usr/lib/systemd/system/rdma_server.service || fail "deb: the unit is not valid"
systemd-analyze security --offline=yes --threshold=18 --no-pager /usr/lib/systemd/system/rdma_server.service >"$made/security" ||
	fail "deb: the unit has more rights than it should: $(tail -n 1 "$made/security")"
tail -n 1 "$made/security"
apt purge rawverbs rdmacm-utils

# The archive: it works where it is unpacked.
tar -C "$made" -xzf out/packages/*.tar.gz
uses 1.2.3 "$made"/rawverbs-*/bin rdma_server rdma_client

# The RPM package: the same files, owned by root, none of them of librdmacm-utils, whose files are those of Debian's.
rpm -K --nosignature out/packages/*.rpm
rpm -qpl out/packages/*.rpm | sort >"$made/rpm.files"
for file in /usr/bin/{rawverbs-server,rawverbs-client,rdma_lab,rawverbs} /usr/lib/rawverbs/bin/rdma_{server,client} /usr/lib/rawverbs/librawverbs{,-core}.so \
	/usr/lib/systemd/system/rdma_server.service /etc/default/rdma_server /usr/share/zsh/site-functions/_rdma_lab \
	/usr/share/man/man1/{rawverbs,rawverbs-server,rawverbs-client,rdma_lab}.1.gz \
	/usr/share/doc/rawverbs/{README,CHANGELOG,docs/operations,docs/runbook}.md /usr/share/rawverbs/{prometheus/rules.yml,grafana/rawverbs.json}; do
	grep -qx "$file" "$made/rpm.files" || fail "rpm: no $file"
	[[ $file == *zsh* || -e $made/shlibs/debian/rawverbs$file || -L $made/shlibs/debian/rawverbs$file ]] || fail "deb: no $file"
done
both=$(comm -12 "$made/rpm.files" "$made/others")
[[ -s $made/others && -z $both ]] || fail "rpm: librdmacm-utils has these files too: $both"
rpm -qp --queryformat '[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]' out/packages/*.rpm | sort -u | grep -qx root:root || fail "rpm: files of others than root"
[[ $(rpm -qp --queryformat '%{LICENSE}' out/packages/*.rpm) == MIT ]] || fail "rpm: the licence"
rpm -qp --requires out/packages/*.rpm | grep -qx "glibc >= $(dpkg-deb -f "$deb" Depends | grep -oE '[0-9.]+' | tail -n 1)" || fail "rpm: it does not require this glibc"
echo "packages: the archive works, and the rpm has its files, none of librdmacm-utils"

"${as_root[@]}" test/packages/systemd.sh "$made/old" "$made/new"
echo "packages: all passed"
