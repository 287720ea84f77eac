#!/bin/bash
# Runs a test binary in the machine with rxe0, in the current directory. The Makefile uses it
# with `go test -exec`. The binary must be in the repository, so GOTMPDIR must be too.
set -euo pipefail
repo=$(cd "$(dirname "$0")/../.." && pwd -P)
printf -v cmd '%q ' "$@"
printf -v dir '%q' "$PWD"
VM_ENV=${VM_ENV:+$VM_ENV }GOTRACEBACK RDMA_TEST_DEVICE=rxe0 exec "$repo/test/vm/run.sh" "cd $dir && exec $cmd"
