#include "quern/base/check.hpp"
#include "quern/base/strict_json.hpp"
#include "quern/train/checkpoint_state.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

/// As a checkpoint of step 7 reads its state.
void read_state(std::string_view input) {
  parse_strict(std::string(input), "state.json", ErrorKind::file);
  const nlohmann::json state = nlohmann::json::parse(input, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object()) return;
  const CheckpointState found = state_of(state, 7, "state.json");
  if (!found.isa || !found.threads) return;  // an older program's
  require(state_of(found.to_json(), 7, "state.json").to_json() == found.to_json(),
          "a state reads back as it was written");
}

const RegisterTarget state({"state", read_state});

}  // namespace
}  // namespace quern::test
