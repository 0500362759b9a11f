#!/usr/bin/env bash
# Configures and builds a preset (release by default): tools/build.sh [PRESET [TARGET…]]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset "$preset" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build --preset "$preset" ${1:+--target "$@"} >&2
