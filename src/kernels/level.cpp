#include "level.hpp"

#include "quern/base/check.hpp"
#include "quern/base/cpu.hpp"

namespace quern::kernels {

#define QUERN_ENTRY(name, arguments) &name,
#define QUERN_TABLE(isa_level)                            \
  namespace isa_level {                                   \
  QUERN_LEVEL_KERNELS(QUERN_DECLARE)                      \
  const Level table = {QUERN_LEVEL_KERNELS(QUERN_ENTRY)}; \
  }

QUERN_TABLE(portable)
#if defined(__x86_64__)
QUERN_TABLE(v2)
QUERN_TABLE(v3)
QUERN_TABLE(v4)
namespace amx {
QUERN_LEVEL_ATTENTION_KERNELS(QUERN_DECLARE)
/// v4's but for attention in bf16.
const Level table = [] {
  Level level = v4::table;
  level.attention_forward_tile = &attention_forward_tile;
  level.attention_backward_head = &attention_backward_head;
  return level;
}();
}  // namespace amx
#endif

namespace {

const Level& choose() {
  switch (isa()) {
    case Isa::portable: return portable::table;
#if defined(__x86_64__)
    case Isa::v2: return v2::table;
    case Isa::v3: return v3::table;
    case Isa::v4: return v4::table;
    case Isa::amx: return amx::table;
#else
    default: break;
#endif
  }
  QUERN_CHECK(false, name(isa()));
}

}  // namespace

const Level& level() {
  static const Level& chosen = choose();
  return chosen;
}

}  // namespace quern::kernels
