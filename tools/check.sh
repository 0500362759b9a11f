#!/usr/bin/env bash
# All that a change must pass: format, warnings as errors, tests, layer rule, AddressSanitizer and
# UndefinedBehaviorSanitizer; then the size of each layer.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_WAIT_POLICY=passive  # two tests at a time share the cores: a waiting thread must not spin
tools/setup.sh
command -v clang-format >/dev/null || { echo "check: clang-format is missing (apt-get install clang-format)" >&2; exit 1; }
git ls-files '*.cpp' '*.hpp' | xargs clang-format --dry-run --Werror
tools/test.sh
tools/build.sh sanitize
OMP_NUM_THREADS=2 ctest --preset sanitize -j 2
for layer in src/*/; do
  name=$(basename "$layer")
  printf '%-9s %6d lines\n' "$name" "$(find "src/$name" "include/quern/$name" -type f | xargs cat | wc -l)"
done
