#include "quern/watch/tensorboard.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/crc32c.hpp"

using namespace quern;
using test::get;
using test::put;
using test::TemporaryDirectory;

namespace {

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T number;
  REQUIRE(at + sizeof number <= bytes.size());
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// A message's fields by number, each value as it lies there.
std::multimap<int, std::string> fields_of(std::string_view bytes) {
  std::multimap<int, std::string> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(at < bytes.size());
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.size()) {
    const std::uint64_t key = varint();
    const std::size_t begin = at;
    std::size_t size = 0;
    if (key % 8 == 0) varint(), size = at - begin, at = begin;
    if (key % 8 == 1) size = 8;
    if (key % 8 == 2) size = varint();
    if (key % 8 == 5) size = 4;
    REQUIRE(at + size <= bytes.size());
    fields.emplace(static_cast<int>(key / 8), bytes.substr(at, size));
    at += size;
  }
  return fields;
}

std::string field(const std::string& message, std::initializer_list<int> path) {
  std::string at = message;
  for (const int number : path) {
    const auto fields = fields_of(at);
    const auto found = fields.find(number);
    if (found == fields.end()) return "";
    at = found->second;
  }
  return at;
}

/// The records of a file, their checksums held against the definition: the CRC rotated right by 15 bits, and
/// a constant added.
std::vector<std::string> records_of(const std::string& bytes) {
  const auto masked = [](std::string_view data) {
    const std::uint32_t crc = crc32c(data.data(), data.size());
    return (crc / 0x8000U + crc % 0x8000U * 0x20000U) + 0xa282ead8U;
  };
  std::vector<std::string> records;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto size = number_at<std::uint64_t>(bytes, at);
    CHECK(number_at<std::uint32_t>(bytes, at + 8) == masked(std::string_view(bytes).substr(at, 8)));
    records.push_back(bytes.substr(at + 12, size));
    CHECK(number_at<std::uint32_t>(bytes, at + 12 + size) == masked(records.back()));
    at += 12 + size + 4;
  }
  return records;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// The simple values of a tag by step.
std::map<int, float> scalars(const std::vector<std::string>& records, const std::string& tag) {
  std::map<int, float> found;
  for (const std::string& record : records)
    if (field(record, {5, 1, 1}) == tag)
      found[field(record, {2})[0]] = number_at<float>(field(record, {5, 1, 2}), 0);
  return found;
}

const std::string& with_tag(const std::vector<std::string>& records, const std::string& tag) {
  for (const std::string& record : records)
    if (field(record, {5, 1, 1}) == tag) return record;
  FAIL("no record of " << tag);
  return records.front();
}

}  // namespace

TEST_CASE("event files hold what a run tells, each record under its checksums") {
  const TemporaryDirectory directory;
  Files files;
  {
    TensorBoard board(files, directory / "tb",
                      {{"optim.learning_rate", 1e-3}, {"model.bias", true}, {"run.name", std::string("x")}});
    board.on_start({});
    StepEvent step{1, 768, 2.31, std::nullopt, 0.001, 0.8, 31.2, 24615.4};
    step.rss = 1 << 20;
    step.update_ratio = 0.25;
    board.on_step(step);
    step.step = 2, step.loss = std::numeric_limits<double>::quiet_NaN();
    board.on_step(step);
    step.step = 3, step.tokens_per_second = 0, step.smoothed_loss = step.grad_norm = step.loss;
    board.on_step(step);  // without a target
    board.on_eval({2, "val", 2.28, 4096, 0.4, true, {{"accuracy", 0.75}}});
    board.on_sample({2, "One", " day\n</script>"});
    const float weights[] = {-1, 0, 0.5F, 3};
    board.on_distribution({2, "head.weight", histogram_of(weights, 4), histogram_of(weights, 1)});
    board.on_end({2, "completed", 1, std::nullopt, 0});
  }
  const auto paths = files_in(directory / "tb");
  REQUIRE(paths.size() == 1);
  CHECK(paths[0].filename().string().starts_with("events.out.tfevents."));
  const auto records = records_of(get(paths[0]));
  CHECK(field(records.at(0), {3}) == "brain.Event:2");
  for (const std::string& record : records) CHECK(number_at<double>(field(record, {1}), 0) > 1.6e9);
  CHECK(scalars(records, "train/loss").at(1) == 2.31F);
  CHECK(std::isnan(scalars(records, "train/loss").at(2)));
  CHECK(scalars(records, "train/loss").size() == 2);
  CHECK(scalars(records, "train/smoothed_loss").empty());
  CHECK(scalars(records, "train/gradient_norm").size() == 2);
  CHECK(scalars(records, "train/tokens_per_second").at(3) == 0);
  CHECK(scalars(records, "train/learning_rate").at(1) == 0.001F);
  CHECK(scalars(records, "memory/resident_bytes").at(1) == 1 << 20);
  CHECK(scalars(records, "train/update_ratio").at(1) == 0.25F);
  CHECK(scalars(records, "val/loss") == std::map<int, float>{{2, 2.28F}});
  CHECK(scalars(records, "val/accuracy") == std::map<int, float>{{2, 0.75F}});

  const std::string& sample = with_tag(records, "samples");
  CHECK(field(sample, {5, 1, 8, 8}) == "    One day\n    </script>");
  CHECK(field(sample, {5, 1, 9, 1, 1}) == "text");
  CHECK(field(sample, {5, 1, 8, 1}) == std::string(1, 7));

  const std::string histogram = field(with_tag(records, "weights/head.weight"), {5, 1, 5});
  CHECK(number_at<double>(field(histogram, {1}), 0) == -1);
  CHECK(number_at<double>(field(histogram, {2}), 0) == 3);
  CHECK(number_at<double>(field(histogram, {3}), 0) == 4);
  CHECK(number_at<double>(field(histogram, {4}), 0) == 2.5);
  CHECK(number_at<double>(field(histogram, {5}), 0) == 10.25);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(number_at<double>(field(histogram, {6}), 8 * i) == double(i));
    CHECK(number_at<double>(field(histogram, {7}), 8 * i) == std::vector<double>{2, 1, 0, 1}[i]);
  }
  with_tag(records, "gradients/head.weight");

  const std::string settings = field(with_tag(records, "_hparams_/session_start_info"), {5, 1, 9, 1, 2, 3});
  std::map<std::string, std::string> values;
  for (const auto& [number, entry] : fields_of(settings))
    if (number == 1) values[field(entry, {1})] = field(entry, {2});
  CHECK(number_at<double>(field(values.at("optim.learning_rate"), {2}), 0) == 1e-3);
  CHECK(field(values.at("model.bias"), {4}) == std::string(1, 1));
  CHECK(field(values.at("run.name"), {3}) == "x");
  const std::string end = field(with_tag(records, "_hparams_/session_end_info"), {5, 1, 9, 1, 2, 4});
  CHECK(field(end, {1}) == std::string(1, 1));
}

TEST_CASE("a resumed run goes on in a file that sorts behind the others, and takes back later steps") {
  const TemporaryDirectory directory;
  Files files;
  std::filesystem::create_directory(directory / "tb");
  put(directory / "tb" / "events.out.tfevents.4000000000.quern.1", "");  // a clock that was wrong
  {
    TensorBoard board(files, directory / "tb", {});
    ResumeEvent resume;
    resume.start.step = 20;
    board.on_resume(resume);
    board.on_anomaly({25, "nonfinite", "rollback", 1, 1, std::nullopt, 20, "bad"});
  }
  const auto paths = files_in(directory / "tb");
  REQUIRE(paths.size() == 2);
  CHECK(paths[1].filename().string().starts_with("events.out.tfevents.4000000001."));
  const auto records = records_of(get(paths[1]));
  CHECK(field(records.at(1), {7, 1}) == std::string(1, 1));
  CHECK(field(records.at(1), {2}) == std::string(1, 21));
  CHECK(field(records.back(), {7, 1}) == std::string(1, 1));
  CHECK(field(with_tag(records, "anomalies"), {5, 1, 8, 8}) == "    bad");
}
