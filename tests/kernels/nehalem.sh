#!/bin/sh
# Never an illegal instruction on an old processor: a Nehalem (2008: SSE4.2 and popcnt, no AVX), emulated by qemu, trains
# a few steps at level v2 and samples.
#   nehalem.sh QUERN CONFIG FOLDER     FOLDER is made anew
quern=$1 config=$2 folder=$3
[ "$(uname -m)" = x86_64 ] && command -v qemu-x86_64 >/dev/null || { echo "qemu-x86_64 is missing"; exit 77; }
rm -rf "$folder"
mkdir -p "$folder"
trap 'rm -rf "$folder"' EXIT
on_nehalem() { qemu-x86_64 -cpu Nehalem "$quern" "$@"; }
for precision in f32 bf16; do
  on_nehalem train --config "$config" --run-dir "$folder/$precision" --set run.max_steps=3 --set run.eval_batches=1 \
    --set run.precision=$precision 2>"$folder/log" || { cat "$folder/log"; echo "training in $precision failed"; exit 1; }
  grep -q 'threads\?, v2$' "$folder/log" || { cat "$folder/log"; echo "this is not level v2"; exit 1; }
done
on_nehalem sample --run "$folder/f32" --prompt The --max-new-tokens 20
