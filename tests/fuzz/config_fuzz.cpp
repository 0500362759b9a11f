#include "quern/train/config.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

void read_config(std::string_view input) {
  std::vector<ConfigText> texts(1);
  texts[0] = {"config.json", std::string(input)};
  const Config config = merge_config(texts, std::nullopt, {});
  const std::string text = to_json(config);
  require(to_json(merge_config({{"again.json", text}}, std::nullopt, {})) == text,
          "a config reads back as it was written");
}

/// The config is written too, and read back: a byte, DEL say, may be six there.
std::uint64_t memory(std::string_view input) { return 4 * default_memory(input); }

const RegisterTarget config({"config", read_config, memory});

}  // namespace
}  // namespace quern::test
