#!/usr/bin/env bash
# What `cmake --install` makes of a build works where it lies: the program alone in a place of its own, its manual page
# and completions, and the library through find_package. install_test.sh BUILD
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/prefix" >"$place/log"
quern=$place/prefix/bin/quern

cd "$place"
"$quern" train --quiet --config "$place/prefix/share/quern/configs/tiny.json" --set run.max_steps=3 --run-dir one
for file in share/man/man1/quern.1 share/quern/quern.schema.json share/bash-completion/completions/quern \
  share/zsh/vendor-completions/_quern share/fish/vendor_completions.d/quern.fish; do
  [ -s "prefix/$file" ] || { echo "install_test: $file is missing" >&2; exit 1; }
done

cmake -S "$source/tools/example" -B example -G Ninja -DCMAKE_PREFIX_PATH="$place/prefix" >>"$place/log"
cmake --build example >>"$place/log"
example/train_text "$source/data/toy.txt" 60 >said
grep -q '^validation loss [0-2]\.' said || { echo "install_test: the example said:" >&2; cat said >&2; exit 1; }
if example/train_text missing.txt 60 2>refused; then exit 1; fi
grep -q 'missing.txt' refused
