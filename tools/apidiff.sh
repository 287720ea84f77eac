#!/bin/bash
# Compares the public API with that of an older commit, package by package:
#
#   tools/apidiff.sh          with the commit of the newest release in CHANGELOG.md
#   tools/apidiff.sh COMMIT   with COMMIT
#
# Prints the changes. An incompatible change is not a failure: CHANGELOG.md explains it.
set -euo pipefail
cd "$(dirname "$0")/.."

base=${1:-}
if [[ -z $base ]]; then
	release=$(sed -nE 's/^## ([0-9]+\.[0-9]+\.[0-9]+).*/\1/p' CHANGELOG.md | head -n 1)
	[[ -n $release ]] || { echo "apidiff: CHANGELOG.md has no release yet; try: make apidiff BASE=COMMIT" >&2; exit 1; }
	base=$(git log --format=%H -S"## $release" -- CHANGELOG.md | tail -n 1)
	[[ -n $base ]] || { echo "apidiff: no commit adds the section $release; the clone may lack history; try: git fetch --unshallow" >&2; exit 1; }
	echo "the API since $release, commit ${base:0:12}"
fi

old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$base" | tar -x -C "$old"
tool=(go tool "-modfile=$PWD/tools/go.mod" apidiff)
packages() { go list ./... | grep -vE '/(internal|cmd|examples|test)(/|$)'; }

for package in $({ packages; (cd "$old" && packages); } | sort -u); do
	was=$old/was is=$old/is
	: >"$was"
	: >"$is"
	(cd "$old" && "${tool[@]}" -w "$was" "$package") 2>/dev/null || true
	"${tool[@]}" -w "$is" "$package" 2>/dev/null || true
	if [[ ! -s $was ]]; then
		changes="a new package"
	elif [[ ! -s $is ]]; then
		changes="the package was removed"
	else
		changes=$("${tool[@]}" "$was" "$is" 2>/dev/null)
	fi
	printf '%s: %s\n' "$package" "${changes:-no change}"
done
