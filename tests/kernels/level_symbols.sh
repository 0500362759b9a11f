#!/bin/sh
# Never an illegal instruction: what is compiled for a level may only be reached through that level's table.
#   level_symbols.sh LEVEL OBJECT…     an object of a level defines nothing that another file could link by accident
#   level_symbols.sh baseline FILE…    what is compiled for every processor holds no instruction beyond x86-64's
#                                      first level (SSE2); cpuid and xgetbv, which ask, and tzcnt, which an older
#                                      processor reads as bsf, aside
level=$1
shift
status=0
if [ "$level" = baseline ]; then
  [ "$(uname -m)" = x86_64 ] || exit 0
  tab=$(printf '\t')
  sse3='addsubp[sd]|haddp[sd]|hsubp[sd]|lddqu|movddup|movs[hl]dup|fisttp[a-z]*'
  ssse3='pabs[bwd]|palignr|ph(add|sub)(w|d|sw)|pmaddubsw|pmulhrsw|pshufb|psign[bwd]'
  sse4='blendv?p[sd]|pblend(w|vb)|dpp[sd]|extractps|insertps|movntdqa|mpsadbw|packusdw|pcmp(eqq|gtq|[ei]str[im])|pextr[bdq]'
  sse4="$sse4|phminposuw|pinsr[bdq]|p(min|max)(sb|sd|uw|ud)|pmov[sz]x[a-z]*|pmul(dq|ld)|ptest|round[sp][sd]|crc32[a-z]*|popcnt[a-z]*"
  bmi='andn|bextr|bls(i|msk|r)|bzhi|lzcnt[a-z]*|mulx|p(dep|ext)|rorx|(sar|shl|shr)x|movbe[a-z]*|adcx|adox'
  vex='v(add|and|blend|broadcast|cmp|comp|cvt|div|dp|extract|fm|fn|gather|gf|insert|ld|mask|max|min|mov|mul|or|p|range|rcp|reduce|rnd|round|rsqrt|scatter|shuf|sqrt|st|sub|test|ucomi|unpck|xor|zero)[a-z0-9]*'
  beyond="%[yz]mm|^ *[0-9a-f]+:$tab($sse3|$ssse3|$sse4|$bmi|$vex|k(mov|or|and|xor|not|test|unpck|shift)[a-z]*)( |\$)"
  for file in "$@"; do
    if objdump -d --no-show-raw-insn "$file" | grep -m 3 -E "$beyond"; then
      echo "$file holds instructions that not every processor has"
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
