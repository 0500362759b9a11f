#include "records.hpp"

namespace quern::test {
namespace {

const RegisterTarget records({"jsonl", [](std::string_view input) { read_each_kind("x.jsonl", input); }});

}  // namespace
}  // namespace quern::test
