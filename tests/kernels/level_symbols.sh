#!/bin/sh
# Never an illegal instruction: what is compiled for a level may only be reached through that level's table.
#   level_symbols.sh LEVEL OBJECT…     an object of a level defines nothing that another file could link by accident
#   level_symbols.sh baseline FILE…    what is compiled for every processor holds no AVX register
level=$1
shift
status=0
if [ "$level" = baseline ]; then
  [ "$(uname -m)" = x86_64 ] || exit 0
  for file in "$@"; do
    if objdump -d --no-show-raw-insn "$file" | grep -m 3 -E '%[yz]mm'; then
      echo "$file holds AVX instructions"
      status=1
    fi
  done
  exit $status
fi
defined=$(nm -C --defined-only "$@" | grep -E ' [A-Zu] ')
[ -n "$defined" ] || { echo "no symbols in: $*"; exit 1; }
if echo "$defined" | grep -E ' [WVu] '; then
  echo "weak symbols in level $level: the linker may keep these copies for everyone"
  status=1
fi
if echo "$defined" | grep -E ' [TBDR] ' | grep -v " quern::kernels::$level::"; then
  echo "symbols outside quern::kernels::$level"
  status=1
fi
exit $status
