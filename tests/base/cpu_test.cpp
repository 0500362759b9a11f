#include "quern/base/cpu.hpp"

#include <cstdlib>
#include <string>

#include "catch.hpp"

using namespace quern;

TEST_CASE("the level in use is QUERN_ISA's when set, else the processor's, and never above the processor's") {
  const char* forced = std::getenv("QUERN_ISA");
  if (forced != nullptr)
    CHECK(name(isa()) == std::string(forced));
  else
    CHECK(isa() == detected_isa());
  CHECK(isa() <= detected_isa());
}

TEST_CASE("usable cores and the processor's name") {
  CHECK(usable_cores() >= 1);
  CHECK(!cpu_name().empty());
}
