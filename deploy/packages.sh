#!/bin/bash
# Builds the programs and makes out/packages/ of them: a Debian package, an RPM package and an archive.
#
#   deploy/packages.sh             VERSION=1.2.3 sets the version; otherwise it names the commit
#
# The programs need the glibc of this host or a newer one. nfpm is pinned in tools/nfpm.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=${VERSION:-$(deploy/version.sh)}
VERSION=${VERSION#v} VERSION=${VERSION//-/\~} ARCH=$(go env GOARCH)
LICENSE=$(sed -n "1s, License,,p" LICENSE)
export VERSION ARCH LICENSE
make all

out=out/packages
rm -rf "$out"
mkdir -p "$out/man"
for program in rdma_server rdma_client; do
	"./$program" man | gzip -9n >"$out/man/$program.1.gz"
done

go build -C tools/nfpm -o "$PWD/$out/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm
for format in deb rpm; do
	"$out/nfpm" package --config deploy/nfpm.yaml --packager "$format" --target "$out/" >&2
done
rm "$out/nfpm"

tree=rawverbs-$VERSION-linux-$ARCH
make -s install DESTDIR="$out/$tree" PREFIX=
mkdir -p "$out/$tree"/share/{man/man1,doc/rawverbs,rawverbs}
cp "$out"/man/* "$out/$tree/share/man/man1/"
cp README.md CHANGELOG.md LICENSE docs/operations.md "$out/$tree/share/doc/rawverbs/"
cp -r deploy/systemd deploy/kubernetes/*.yaml "$out/$tree/share/rawverbs/"
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -czf "$out/$tree.tar.gz" "$tree"
rm -rf "${out:?}/$tree" "$out/man"
(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -l "$out"
