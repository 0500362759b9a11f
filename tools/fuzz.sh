#!/usr/bin/env bash
# fuzz.sh TARGET SECONDS: feeds one reader (tests/fuzz/TARGET_fuzz.cpp) with what libFuzzer makes of its seeds, under
# AddressSanitizer and UndefinedBehaviourSanitizer; without a target, lists them. An input that crashes it, takes more
# than five seconds or a gibibyte is kept in build-fuzz/findings/: mend the reader, and keep the input as a seed.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1  # readers are small: a second thread would spend its time waiting
targets=$(for file in tests/fuzz/*_fuzz.cpp; do basename "$file" _fuzz.cpp; done)
if [ $# -ne 2 ] || ! grep -qx -- "$1" <<<"$targets" || ! [[ $2 =~ ^[0-9]+$ ]]; then
  echo "usage: tools/fuzz.sh TARGET SECONDS, TARGET one of" $targets >&2
  exit 2
fi
target=$1 seconds=$2
command -v clang++ >/dev/null || { echo "fuzz: clang is missing (apt-get install clang)" >&2; exit 1; }
cmake -S tests/fuzz -B build-fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ >/dev/null
cmake --build build-fuzz --target "${target}_fuzz" write_seeds >&2
mkdir -p "build-fuzz/corpus/$target" build-fuzz/findings
build-fuzz/write_seeds "$target" "build-fuzz/seeds/$target"
exec "build-fuzz/${target}_fuzz" "build-fuzz/corpus/$target" "build-fuzz/seeds/$target" \
  -artifact_prefix="build-fuzz/findings/$target-" -max_total_time="$seconds" -max_len=65536 -timeout=5 \
  -rss_limit_mb=1024 -print_final_stats=1
