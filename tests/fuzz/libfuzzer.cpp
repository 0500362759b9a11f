// libFuzzer's entry, for the one target that is linked in.
#include "target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quern::test::run_target(quern::test::fuzz_targets().front(), {reinterpret_cast<const char*>(data), size});
  return 0;
}
