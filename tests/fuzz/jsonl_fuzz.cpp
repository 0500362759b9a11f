#include "records.hpp"

namespace quern::test {
namespace {

const RegisterTarget records({"jsonl", [](std::string_view input) { read_each_kind("x.jsonl", input); },
                              records_memory});

}  // namespace
}  // namespace quern::test
