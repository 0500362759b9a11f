#include "records.hpp"

namespace quern::test {
namespace {

const RegisterTarget records({"tsv", [](std::string_view input) { read_each_kind("x.tsv", input); }});

}  // namespace
}  // namespace quern::test
