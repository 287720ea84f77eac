#!/bin/bash
# Runs a test binary in the machine with rxe0, in the directory it is called in:
# the -exec of `go test`, see the Makefile. The binary must lie in the
# repository, so GOTMPDIR must.
set -euo pipefail
repo=$(cd "$(dirname "$0")/../.." && pwd -P)
printf -v cmd '%q ' "$@"
printf -v dir '%q' "$PWD"
VM_ENV=${VM_ENV:+$VM_ENV }GOTRACEBACK RDMA_TEST_DEVICE=rxe0 exec "$repo/test/vm/run.sh" "cd $dir && exec $cmd"
