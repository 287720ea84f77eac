#!/bin/bash
# Builds the programs and makes out/packages/ of them: a Debian package, an RPM package and an archive.
#
#   deploy/packages.sh             VERSION=1.2.3 sets the version; otherwise it names the commit
#
# The programs need the glibc of this host or a newer one. nfpm is pinned in tools/nfpm.
set -euo pipefail
umask 022 # nfpm takes the files' modes
cd "$(dirname "$0")/.."

VERSION=${VERSION:-$(deploy/version.sh)}
VERSION=${VERSION#v} VERSION=${VERSION//-/\~} ARCH=$(go env GOARCH)
export VERSION ARCH
make all

out=out/packages
tree=$out/rawverbs-$VERSION-linux-$ARCH
rm -rf "$out"
mkdir -p "$out"
make -s install DESTDIR="$tree" PREFIX=
strip "$tree"/bin/* "$tree"/lib/rawverbs/*
GLIBC=$(readelf -VW "$tree"/bin/* "$tree"/lib/rawverbs/* | grep -oE 'GLIBC_[0-9.]+' | sort -V | tail -n 1)
export GLIBC=${GLIBC#GLIBC_}

# describe SHARE writes the manual pages and the completions of the programs below a folder like /usr/share.
describe() {
	local program
	mkdir -p "$1"/{man/man1,bash-completion/completions,fish/vendor_completions.d,zsh/site-functions}
	for program in "$tree"/bin/*; do
		"$program" man >"$1/man/man1/${program##*/}.1"
		"$program" completion bash >"$1/bash-completion/completions/${program##*/}"
		"$program" completion fish >"$1/fish/vendor_completions.d/${program##*/}.fish"
		"$program" completion zsh >"$1/zsh/site-functions/_${program##*/}"
	done
}

# document SHARE copies the documents there, as they lie here, and what they are about. Links to what is not there lead to
# the repository.
document() {
	local page link target doc=$1/doc/rawverbs
	mkdir -p "$doc" "$1"/rawverbs/{prometheus,grafana,kubernetes,systemd}
	cp README.md CHANGELOG.md "$doc"
	cp -r docs "$doc"
	ln -s ../../rawverbs "$doc/deploy"
	cp deploy/prometheus/rules.yml "$1/rawverbs/prometheus/"
	cp deploy/grafana/rawverbs.json "$1/rawverbs/grafana/"
	cp deploy/kubernetes/*.yaml "$1/rawverbs/kubernetes/"
	cp deploy/systemd/* "$1/rawverbs/systemd/"
	while IFS=: read -r page link; do
		link=${link#](}
		target=$(realpath -ms --relative-to="$doc" "$(dirname "$page")/$link")
		if [[ ! -e $doc/$target ]]; then sed -i "s,](${link//./\\.}\([)#]\),](https://github.com/rawverbs/rawverbs/blob/main/$target\1,g" "$page"; fi
	done < <(grep -rohE --include='*.md' --with-filename '\]\([^)#: ]+' "$doc" | sort -u)
}

# In the packages rdma_server and rdma_client are rawverbs-server and rawverbs-client, because rdmacm-utils has
# programs and manual pages of the first names, which completion must not run.
describe "$out/share"
document "$out/share"
for end in server client; do
	for file in man/man1/rdma_$end.1 bash-completion/completions/rdma_$end fish/vendor_completions.d/rdma_$end.fish; do
		mv "$out/share/$file" "$out/share/${file/rdma_/rawverbs-}"
	done
done
# Files keep their names.
sed -Ei 's/rdma_(server|client)/rawverbs\\-\1/g; s,([/.])rawverbs\\-,\1rdma_,g; s/rawverbs\\-server\.service/rdma_server.service/g
	s/^\.TH RDMA_/.TH RAWVERBS-/' "$out"/share/man/man1/*
sed -Ei 's/\brdma_(server|client)\b/rawverbs-\1/g' "$out"/share/{bash-completion/completions,fish/vendor_completions.d,zsh/site-functions}/*
gzip -9n "$out"/share/man/man1/*
mv "$out/share/zsh" "$out/zsh"
gzip -9n >"$out/changelog.gz" <<END
rawverbs ($VERSION-1) unstable; urgency=medium

  * The changes are in CHANGELOG.md.

 -- The rawverbs authors <rawverbs@users.noreply.github.com>  $(git log -1 --format=%cD)
END

ln -sfn "${tree##*/}" "$out/tree"
go build -C tools/nfpm -o "$PWD/$out/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm
for format in deb rpm; do
	"$out/nfpm" package --config deploy/nfpm.yaml --packager "$format" --target "$out/" >&2
done

describe "$tree/share"
gzip -9n "$tree"/share/man/man1/*
document "$tree/share"
cp LICENSE "$tree/share/doc/rawverbs/"
sed -i 's,/usr/bin/rawverbs-server,/usr/local/bin/rdma_server,; s/rawverbs-server(1)/rdma_server(1)/' "$tree/share/rawverbs/systemd/rdma_server.service"
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -czf "$tree.tar.gz" "${tree##*/}"
rm -rf "${tree:?}" "$out"/{tree,share,zsh,nfpm,changelog.gz}
(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -l "$out"
