#!/bin/bash
# tools/apidiff.sh [COMMIT] prints the changes of the public API since COMMIT, or since the newest release in CHANGELOG.md. An
# incompatible change is not a failure: CHANGELOG.md explains it.
set -euo pipefail
cd "$(dirname "$0")/.."

release=$(sed -nE 's/^## ([0-9]+\.[0-9]+\.[0-9]+).*/\1/p' CHANGELOG.md | head -n 1)
base=${1:-$(git log --format=%H -S"## $release" -- CHANGELOG.md | tail -n 1)}
[[ -n $base ]] || { echo "apidiff: no commit adds ## $release to CHANGELOG.md; try: git fetch --unshallow, or make apidiff BASE=COMMIT" >&2; exit 1; }
echo "the API since $(git log -1 --format='%h, %s' "$base")"

old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$base" | tar -x -C "$old"
tool=(go tool "-modfile=$PWD/tools/go.mod" apidiff -m)
{
	(cd "$old" && "${tool[@]}" -w was "$(go list -m)")
	"${tool[@]}" -w "$old/is" "$(go list -m)"
	"${tool[@]}" "$old/was" "$old/is"
} 2> >(grep -v '^Ignoring internal package' >&2)
