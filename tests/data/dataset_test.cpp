#include "quern/data/dataset.hpp"

#include <set>

#include "catch.hpp"

namespace quern {
namespace {

DataConfig task(TaskKind kind) {
  DataConfig config;
  config.task = kind;
  config.val_fraction = 0.5;
  return config;
}

std::string text_of(const Dataset& data, const std::vector<std::int32_t>& ids) {
  return data.tokenizer.decode(ids);
}

TEST_CASE("as a stream of fixed lengths an answer follows its question without a mark") {
  DataConfig config = task(TaskKind::sort);
  const Dataset data = load_dataset(config, {Framing::stream, 11, 0, 1});
  CHECK(data.tokenizer.vocab_size() == 3);
  Example example;
  for (std::int64_t i = 0; i < 50; ++i) {
    data.examples->get(Split::train, i, example);
    REQUIRE(example.inputs.size() == 11);
    REQUIRE(example.targets.size() == 11);
    const std::string row = text_of(data, example.inputs);
    std::string sorted = row.substr(0, 6);
    std::sort(sorted.begin(), sorted.end());
    CHECK(row.substr(6) == sorted.substr(0, 5));
    for (std::size_t t = 0; t < 11; ++t)
      CHECK((t < 5 ? example.targets[t] == kIgnore
                   : data.tokenizer.token_bytes(example.targets[t]) == sorted.substr(t - 5, 1)));
  }
}

TEST_CASE("with an encoder the question is the source, and the answer stands between marks") {
  const Dataset data = load_dataset(task(TaskKind::reverse), {Framing::memory, 16, 0, 1});
  CHECK(data.tokenizer.vocab_size() == 11);
  Example example;
  data.examples->get(Split::val, 3, example);
  const std::string question = text_of(data, example.source);
  const std::string answer(question.rbegin(), question.rend());
  CHECK(text_of(data, example.inputs) == "\n" + answer);
  CHECK(text_of(data, example.targets) == answer + "\n");
}

TEST_CASE("answers of unequal length have a mark behind question and answer") {
  const Dataset data = load_dataset(task(TaskKind::dates), {Framing::stream, 64, 0, 1});
  Example example;
  data.examples->get(Split::train, 0, example);
  const std::string row = text_of(data, example.inputs);
  const std::size_t mark = row.find('\n');
  REQUIRE(mark != std::string::npos);
  CHECK(row.size() == mark + 1 + 10);
  for (std::size_t t = 0; t < example.targets.size(); ++t)
    CHECK((example.targets[t] == kIgnore) == (t < mark));
  CHECK(data.tokenizer.token_bytes(example.targets.back()) == "\n");
}

TEST_CASE("an encoder alone tells the label of what stands behind the mark") {
  const Dataset data = load_dataset(task(TaskKind::parity), {Framing::whole, 16, 0, 1});
  CHECK(data.labels == std::vector<std::string>{"even", "odd"});
  CHECK(data.examples->kind == RowKind::label);
  Example example;
  for (std::int64_t i = 0; i < 20; ++i) {
    data.examples->get(Split::train, i, example);
    const std::string row = text_of(data, example.inputs);
    CHECK(row[0] == '\n');
    REQUIRE(example.targets.size() == 1);
    CHECK(example.targets[0] == std::count(row.begin(), row.end(), '1') % 2);
  }
}

TEST_CASE("recall tells at each place the symbol some places ago") {
  DataConfig config = task(TaskKind::recall);
  config.length = 20;
  config.distance = 4;
  const Dataset data = load_dataset(config, {Framing::stream, 20, 0, 1});
  Example example;
  data.examples->get(Split::train, 5, example);
  REQUIRE(example.inputs.size() == 20);
  for (std::size_t t = 0; t < 20; ++t) CHECK(example.targets[t] == (t < 4 ? kIgnore : example.inputs[t - 4]));
}

TEST_CASE("a context that does not hold a row is refused with the length that does") {
  CHECK_THROWS_WITH(load_dataset(task(TaskKind::sort), {Framing::stream, 10, 0, 1}),
                    Catch::Contains("model.context_length is 10") && Catch::Contains("11 tokens"));
}

TEST_CASE("fingerprints tell tasks, options and seeds apart") {
  std::set<std::string> found;
  DataConfig config = task(TaskKind::copy);
  const auto add = [&](std::uint64_t seed) {
    found.insert(load_dataset(config, {Framing::memory, 32, 0, seed}).fingerprint);
  };
  add(1), add(2), add(1);
  config.length = 12;
  add(1);
  config.task = TaskKind::reverse;
  add(1);
  CHECK(found.size() == 4);
}

}  // namespace
}  // namespace quern
