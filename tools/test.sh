#!/usr/bin/env bash
# Sets up, builds and runs the whole test suite through CTest. Arguments go to ctest (for example -R kernels).
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
tools/build.sh release
ctest --preset release -j 2 "$@"
