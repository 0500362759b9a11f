#!/usr/bin/env bash
# Sets up, builds and runs the whole test suite through CTest. Arguments go to ctest (for example -R kernels).
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_WAIT_POLICY=passive  # two tests at a time share the cores: a waiting thread must not spin
tools/setup.sh test
tools/build.sh release
ctest --preset release -j 2 "$@"
