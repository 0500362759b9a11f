#include "quern/text/tokenizer.hpp"

#include "target.hpp"

namespace quern::test {
namespace {

void read_tokenizer(std::string_view input) {
  const Tokenizer tokenizer = Tokenizer::from_json(input, "tokenizer.json");
  const std::string text = tokenizer.to_json();
  require(Tokenizer::from_json(text, "again.json").to_json() == text,
          "a tokenizer reads back as it was written");
  const std::vector<std::int32_t> ids = tokenizer.encode(input);
  if (tokenizer.kind() != Tokenizer::Kind::word)
    require(tokenizer.decode(ids) == input, "what encodes comes back");
}

const RegisterTarget tokenizer({"tokenizer", read_tokenizer});

}  // namespace
}  // namespace quern::test
