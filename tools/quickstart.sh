#!/usr/bin/env bash
# From a bare Debian 12 to a text that a model has just learned to write. Arguments go to quern train.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
tools/build.sh release quern

run=runs/quickstart-$(date -u +%Y%m%d-%H%M%S)-$$
case " $* " in
  *" --run-dir "* | *" --resume "*) build/quern train "$@"; exit ;;
esac
build/quern train --run-dir "$run" "$@"
echo
echo "What the model writes now:"
echo
build/quern sample --run "$run" --max-new-tokens 600 --temperature 0.8
echo
echo "The run lies in $run, its curves are in $run/report.html; more text: build/quern sample --run $run"
