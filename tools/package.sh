#!/usr/bin/env bash
# Builds the program and makes build/quern_<version>_<architecture>.deb of it: apt-get install ./build/quern_*.deb
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh package
tools/build.sh release quern
cd build
rm -f quern_*.deb
cpack -G DEB >cpack.log 2>&1 || { tail -n 15 cpack.log >&2; exit 1; }
echo "package: $(pwd)/$(ls quern_*.deb)"
