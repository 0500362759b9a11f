#!/usr/bin/env bash
# Installs the Debian packages that Quern is built with, those that are missing alone; `tools/setup.sh test` those of
# its tests too, `tools/setup.sh package` those that a Debian package is made with. Works as root or with sudo.
set -euo pipefail

packages=(g++ cmake ninja-build libdnnl-dev libpng-dev nlohmann-json3-dev libcli11-dev libjs-chart.js catch2)
case "${1:-}" in
  test) packages+=(python3 chromium chromium-driver faketime qemu-user) ;;
  package) packages+=(dpkg-dev file) ;;
esac
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  echo "setup: these packages are missing and neither root nor sudo is at hand: ${missing[*]}" >&2
  echo "  help: ask your administrator to run: apt-get install ${missing[*]}" >&2
  exit 1
fi
command -v apt-get >/dev/null || {
  echo "setup: no apt-get here; install what corresponds to: ${missing[*]}" >&2
  exit 1
}
echo "setup: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; }
{ "${as_root[@]}" apt-get update && install; } >"$log" 2>&1 || {
  tail -n 15 "$log" >&2
  echo "setup: apt-get could not install: ${missing[*]}" >&2
  exit 1
}
