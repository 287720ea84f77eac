#!/bin/bash
# Prints the version of a commit (HEAD), which dpkg and rpm sort by age: at the tag v1.2.3 1.2.3, five commits later
# 1.2.3+5.g2048ced, and without a tag 0.0.0~git20261126233828.1090.g2048ced, with the time and the number of commits.
# Without an argument it is the version of the files, which ends with .dirty if they are not those of HEAD.
set -euo pipefail

commit=${1:-HEAD} dirty=
if (($# == 0)) && [[ -n $(git status --porcelain) ]]; then dirty=.dirty; fi
if described=$(git describe --tags --long --match 'v[0-9]*' "$commit" 2>/dev/null); then
	[[ $described =~ ^v(.*)-([0-9]+)-(g[0-9a-f]+)$ ]]
	# 1.3.0~rc1 is before 1.3.0, and a hyphen would begin the packages' own number.
	version=${BASH_REMATCH[1]//-/\~}
	if ((BASH_REMATCH[2])) || [[ -n $dirty ]]; then version+=+${BASH_REMATCH[2]}.${BASH_REMATCH[3]}; fi
else
	committed=$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S "$commit")
	version=0.0.0~git$committed.$(git rev-list --count "$commit").g$(git rev-parse --short "$commit")
fi
echo "$version$dirty"
