#include "quern/watch/jsonl.hpp"

#include <unistd.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/faulty_files.hpp"
#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"
#include "quern/watch/metrics.hpp"

using namespace quern;
using test::get;
using test::TemporaryDirectory;

namespace {

StepEvent step(std::int64_t number, double loss = 2.31) {
  return {number, 768 * number, loss, std::nullopt, 0.001, 0.8, 31.2, 24615.4};
}

/// A file system on which one write takes only half of its bytes and all after it fail, until space is freed.
class FullFiles : public Files {
 public:
  bool full = false;

 protected:
  ssize_t system_write(int descriptor, const void* data, std::size_t bytes) override {
    if (!full) return Files::system_write(descriptor, data, bytes);
    if (!halved_) {
      halved_ = true;
      return Files::system_write(descriptor, data, bytes / 2);
    }
    errno = ENOSPC;
    return -1;
  }

 private:
  bool halved_ = false;
};

ErrorKind kind_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.kind;
  }
  return ErrorKind::threshold;  // none of the kinds expected here
}

}  // namespace

TEST_CASE("a stream writes each event as it comes, and falls silent when nobody reads any more") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  JsonlStream stream(ends[1]);
  stream.on_step(step(3));
  char text[512] = {};
  REQUIRE(read(ends[0], text, sizeof text - 1) > 0);
  const auto line = nlohmann::json::parse(text);
  CHECK(line.at("event") == "step");
  CHECK(line.at("step") == 3);
  CHECK(line.at("loss") == 2.31);
  const auto old = std::signal(SIGPIPE, SIG_IGN);
  close(ends[0]);
  CHECK_NOTHROW(stream.on_step(step(4)));
  CHECK_NOTHROW(stream.on_step(step(5)));
  std::signal(SIGPIPE, old);
  close(ends[1]);
  JsonlStream nowhere(-1);
  CHECK(kind_of([&] { nowhere.on_step(step(6)); }) == ErrorKind::io);
}

TEST_CASE("each event is one line of JSON with the fields that are promised") {
  const TemporaryDirectory directory;
  Files files;
  JsonlWriter writer(files, directory / "metrics.jsonl");
  StartEvent start;
  start.parameters = 10;
  start.train_tokens = 20;
  start.val_tokens = 5;
  start.name = "toy \xFF \"x\"";  // bytes that are not UTF-8 become U+FFFD
  start.entropy_floor = 0.98;
  start.data_fingerprint = "0123456789abcdef";
  writer.on_start(start);
  writer.on_step(step(1));
  StepEvent smoothed = step(2);
  smoothed.smoothed_loss = 2.5;
  smoothed.phases = {0.5, 10, 20, 0.7};
  smoothed.rss = 1 << 20;
  smoothed.update_ratio = 0.002;
  writer.on_step(smoothed);
  writer.on_eval({2, "val", 2.28, 4096, 0.4, true});
  writer.on_checkpoint({2, "ckpt/step-000000002", 0.05});
  start.step = 2;
  writer.on_resume({start, "ckpt/step-000000002"});
  writer.on_end({2, "completed", 1.5, 2.28, 2});
  CHECK(writer.sync() == static_cast<std::int64_t>(get(directory / "metrics.jsonl").size()));

  std::istringstream lines(get(directory / "metrics.jsonl"));
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  REQUIRE(events.size() == 7);
  for (const auto& event : events) CHECK(event["time"].get<double>() > 1.6e9);
  CHECK(events[0]["event"] == "start");
  CHECK(events[0]["parameters"] == 10);
  CHECK(events[0]["train_tokens"] == 20);
  CHECK(events[0]["val_tokens"] == 5);
  CHECK(events[0]["entropy_floor"] == 0.98);
  CHECK(events[0]["data_fingerprint"] == "0123456789abcdef");
  CHECK(events[0]["name"] == "toy \uFFFD \"x\"");
  CHECK(events[1]["event"] == "step");
  CHECK(events[1]["step"] == 1);
  CHECK(events[1]["tokens"] == 768);
  CHECK(events[1]["loss"] == 2.31);
  CHECK(events[1]["lr"] == 0.001);
  CHECK(events[1]["grad_norm"] == 0.8);
  CHECK(events[1]["ms"] == 31.2);
  CHECK(events[1]["tokens_per_second"] == 24615.4);
  CHECK_FALSE(events[1].contains("smoothed_loss"));
  CHECK_FALSE(events[1].contains("data_ms"));
  CHECK_FALSE(events[1].contains("rss"));
  CHECK_FALSE(events[1].contains("update_ratio"));
  CHECK(events[2]["data_ms"] == 0.5);
  CHECK(events[2]["forward_ms"] == 10);
  CHECK(events[2]["backward_ms"] == 20);
  CHECK(events[2]["optimizer_ms"] == 0.7);
  CHECK(events[2]["rss"] == 1 << 20);
  CHECK(events[2]["update_ratio"] == 0.002);
  CHECK(events[2]["smoothed_loss"] == 2.5);
  CHECK(events[3]["event"] == "eval");
  CHECK(events[3]["split"] == "val");
  CHECK(events[3]["tokens"] == 4096);
  CHECK(events[4]["event"] == "checkpoint");
  CHECK(events[4]["path"] == "ckpt/step-000000002");
  CHECK(events[5]["event"] == "resume");
  CHECK(events[5]["step"] == 2);
  CHECK(events[6]["event"] == "end");
  CHECK(events[6]["status"] == "completed");
}

TEST_CASE("the writer goes back: what was said since is gone, and the next line follows what is left") {
  const TemporaryDirectory directory;
  Files files;
  const auto path = directory / "metrics.jsonl";
  JsonlWriter writer(files, path);
  writer.on_sample({1, "a", "b"});
  const std::int64_t here = writer.sync();
  const std::string before = get(path);
  writer.on_sample({2, "c", "d"});
  writer.cut(here);
  CHECK(writer.offset() == here);
  CHECK(get(path) == before);
  writer.on_sample({3, "e", "f"});
  CHECK(writer.sync() == static_cast<std::int64_t>(get(path).size()));
  const Metrics metrics = read_metrics(path.string());
  REQUIRE(metrics.samples.size() == 2);
  CHECK(metrics.samples[1].step == 3);
  writer.cut(0);
  CHECK(get(path).empty());
}

TEST_CASE("the writer goes back when a write has failed: what was said before is written in the end") {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  int survived = 0;
  for (int at = 1; at <= 8; ++at) {
    test::FaultyFiles files(test::Fault::fail_once, at, ENOSPC);
    try {
      JsonlWriter writer(files, path);
      writer.on_sample({1, "a", "b"});
      const std::int64_t here = writer.offset();
      writer.on_sample({2, "c", "d"});
      writer.cut(here);
      const std::int64_t synced = writer.sync();  // or it throws
      CHECK(synced == here);
      ++survived;
      REQUIRE(read_metrics(path.string()).samples.size() == 1);
      CHECK(static_cast<std::int64_t>(get(path).size()) == here);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::io);
    }
    std::filesystem::remove(path);
  }
  CHECK(survived >= 2);
}

TEST_CASE("samples, anomalies and warnings are read back as they were said") {
  const TemporaryDirectory directory;
  Files files;
  JsonlWriter writer(files, directory / "metrics.jsonl");
  writer.on_sample({5, "One", " day\n\x1b[2J"});
  writer.on_anomaly({6, "spike", "none", 9.5, 80, 7.25, std::nullopt, "the loss is 9.5"});
  writer.on_anomaly({7, "nonfinite", "rollback", 1, std::numeric_limits<double>::infinity(), std::nullopt, 4,
                     "embedding.weight"});
  writer.on_note({7, "little space", true});
  writer.on_note({7, "not kept"});
  writer.sync();
  const Metrics metrics = read_metrics((directory / "metrics.jsonl").string());
  REQUIRE(metrics.samples.size() == 1);
  CHECK(metrics.samples[0].step == 5);
  CHECK(metrics.samples[0].prompt == "One");
  CHECK(metrics.samples[0].text == " day\n\x1b[2J");
  REQUIRE(metrics.anomalies.size() == 2);
  CHECK(metrics.anomalies[0].kind == "spike");
  CHECK(metrics.anomalies[0].loss == 9.5);
  CHECK(metrics.anomalies[0].z_score == 7.25);
  CHECK_FALSE(metrics.anomalies[0].after);
  CHECK(metrics.anomalies[1].action == "rollback");
  CHECK(metrics.anomalies[1].after == 4);
  CHECK(std::isnan(metrics.anomalies[1].grad_norm));
  CHECK(metrics.anomalies[1].text == "embedding.weight");
  REQUIRE(metrics.warnings.size() == 1);
  CHECK(metrics.warnings[0].text == "little space");
}

TEST_CASE("numbers read back to the same double") {
  const TemporaryDirectory directory;
  Files files;
  JsonlWriter writer(files, directory / "metrics.jsonl");
  std::vector<double> values = {0.0,    0.1,    1.0 / 3,
                                1e-310, 5e-324, std::numeric_limits<double>::max(),
                                2.5e15, 1e22,   static_cast<double>(0.1f),
                                -1e-7};
  std::mt19937_64 random(7);
  while (values.size() < 500) {
    const double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) values.push_back(value);
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    writer.on_step(step(static_cast<std::int64_t>(i) + 1, values[i]));
  writer.on_step(step(1000, std::numeric_limits<double>::infinity()));
  const Metrics metrics = read_metrics((directory / "metrics.jsonl").string());
  REQUIRE(metrics.steps.size() == values.size() + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(std::bit_cast<std::uint64_t>(metrics.steps[i].loss) == std::bit_cast<std::uint64_t>(values[i]));
  }
  CHECK(std::isnan(metrics.steps.back().loss));
}

TEST_CASE("opening at an offset cuts what came after it, so that a resumed run says each step once") {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  Files files;
  std::int64_t offset = 0;
  {
    JsonlWriter writer(files, path);
    writer.on_step(step(1));
    writer.on_step(step(2));
    offset = writer.sync();
    writer.on_step(step(3));
    CHECK(writer.offset() > offset);
  }
  {
    JsonlWriter writer(files, path, offset);
    CHECK(writer.offset() == offset);
    writer.on_step(step(3, 1.5));
  }
  const Metrics metrics = read_metrics(path.string());
  REQUIRE(metrics.steps.size() == 3);
  CHECK(metrics.steps[2].loss == 1.5);

  const std::string before = get(path);
  CHECK(kind_of([&] { JsonlWriter(files, path, 100000); }) == ErrorKind::file);
  CHECK(kind_of([&] { JsonlWriter(files, path, offset - 1); }) == ErrorKind::file);
  CHECK(get(path) == before);  // a refused file is left as it was
  JsonlWriter(files, path, 0);
  CHECK(get(path).empty());
}

TEST_CASE("a full disk neither stops the events nor tears the file; sync says so until there is space") {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  FullFiles files;
  JsonlWriter writer(files, path);
  writer.on_step(step(1));
  files.full = true;
  writer.on_step(step(2));
  writer.on_step(step(3));
  CHECK(kind_of([&] { writer.sync(); }) == ErrorKind::io);
  CHECK(read_metrics(path.string()).steps.size() == 1);  // and the torn beginning of step 2
  CHECK(get(path).back() != '\n');
  files.full = false;
  writer.on_step(step(4));
  CHECK(writer.sync() == static_cast<std::int64_t>(get(path).size()));
  CHECK(read_metrics(path.string()).steps.size() == 4);
}

TEST_CASE("an fsync that fails is an error and a place that cannot be opened too") {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  Files plain;
  {
    // open, truncate, write, fsync
    test::FaultyFiles files(test::Fault::fail_once, 4);
    JsonlWriter writer(files, path);
    writer.on_step(step(1));
    CHECK(kind_of([&] { writer.sync(); }) == ErrorKind::io);
  }
  CHECK(kind_of([&] { JsonlWriter(plain, directory / "absent" / "metrics.jsonl"); }) != ErrorKind::threshold);
}
