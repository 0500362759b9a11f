#!/usr/bin/env bash
# coverage.sh [TEST…]: builds without optimisation into build-coverage/, runs the tests of the core layers (or those that
# are named: base kernels …), and prints how many lines of each layer they reach, by gcov. Files below 90 % are listed.
set -euo pipefail
cd "$(dirname "$0")/.."
layers=(base kernels autograd nn text data train)
[ $# -gt 0 ] || set -- "${layers[@]}" fuzz infer io watch
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=2
# Contraction and checks at -O0 are those of a debug build; gcov counts each thread's lines atomically.
cmake -S . -B build-coverage -G Ninja -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS="-O1 -fno-inline-small-functions --coverage -fprofile-update=atomic -fprofile-abs-path" \
  ${CXX_LAUNCHER:+-DCMAKE_CXX_COMPILER_LAUNCHER=$CXX_LAUNCHER} >/dev/null
cmake --build build-coverage ${JOBS:+-j$JOBS} --target "${@/%/_tests}" >&2
find build-coverage -name '*.gcda' -delete
for test; do
  "build-coverage/${test}_tests" '~[figures]' >/dev/null || { echo "coverage: ${test}_tests fails" >&2; exit 1; }
done
# gcov writes one JSON line for each object; a line counts as reached when any of them reached it, so that a template or a
# level that this processor lacks is not held against its file.
find build-coverage -name '*.gcda' ! -path '*_tests.dir*' -print0 |
  xargs -0 gcov --json-format --stdout 2>/dev/null |
  python3 -c '
import collections, json, os, sys
root, wanted = os.getcwd(), sys.argv[1:]
lines = collections.defaultdict(dict)
for text in sys.stdin:
    for file in json.loads(text)["files"]:
        name = os.path.relpath(os.path.join(root, file["file"]), root)
        parts = name.split("/")
        layer = parts[1] if parts[0] == "src" else parts[2] if parts[:2] == ["include", "quern"] else ""
        if layer in wanted:
            for line in file["lines"]:
                seen = lines[layer, name]
                seen[line["line_number"]] = max(seen.get(line["line_number"], 0), line["count"])
def share(files):
    all = [count for file in files for count in file.values()]
    return len(all), sum(count > 0 for count in all)
for layer in wanted:
    total, reached = share([seen for (of, _), seen in lines.items() if of == layer])
    if total:
        print(f"{layer:<9} {reached:6} of {total:6} lines {100 * reached / total:5.1f} %")
total, reached = share(lines.values())
print(f"all       {reached:6} of {total:6} lines {100 * reached / max(total, 1):5.1f} %")
for (_, name), seen in sorted(lines.items()):
    total, reached = share([seen])
    if reached < 0.9 * total:
        missed = [str(line) for line, count in sorted(seen.items()) if count == 0]
        print(f"  {name}: {100 * reached / total:.0f} %, not lines", " ".join(missed[:40]))
' "${layers[@]}"
