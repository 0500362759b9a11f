#include "quern/watch/trace.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "base/temporary_directory.hpp"
#include "catch.hpp"

using namespace quern;
using test::TemporaryDirectory;

namespace {

/// A step as a profile keeps it: what ends first comes first.
std::vector<Slice> step_slices() {
  return {{"batch", "", Phase::data, 0, 1.0, 0.5, {}},
          {"linear", "decoder.blocks.0.attention.qkv", Phase::forward, 0, 2.0, 1.0, {8, 4}},
          {"chunks", "", Phase::thread, 1, 3.1, 0.8, {}},
          {"attention", "decoder.blocks.0.attention", Phase::forward, 0, 3.0, 1.0, {}},
          {"linear", "decoder.blocks.1.attention.qkv", Phase::forward, 0, 4.0, 1.0, {}},
          {"attention", "decoder.blocks.1.attention", Phase::backward, 0, 5.0, 1.0, {}},
          {"step", "", Phase::step, 0, 1.0, 6.0, {}},
          {"checkpoint", "", Phase::checkpoint, 0, 8.0, 1.0, {}}};
}

const TraceEvent& find(const std::vector<TraceEvent>& events, const std::string& name, double begin) {
  for (const TraceEvent& event : events)
    if (event.name == name && event.begin == begin) return event;
  FAIL("no slice " << name << " at " << begin);
  return events.front();
}

}  // namespace

TEST_CASE("slices lie in one of their phase and one of each module along the path") {
  const auto events = trace_events(step_slices());
  CHECK(events.front().name == "step");
  CHECK(find(events, "forward", 2).seconds == 3);
  CHECK(find(events, "decoder", 2).seconds == 3);
  CHECK(find(events, "blocks.0", 2).seconds == 2);
  CHECK(find(events, "attention", 2).seconds == 2);  // the module, around qkv and the operation
  CHECK(find(events, "qkv", 2).seconds == 1);
  CHECK(find(events, "linear", 2).module == "decoder.blocks.0.attention.qkv");
  CHECK(find(events, "blocks.1", 4).seconds == 1);
  CHECK(find(events, "backward", 5).seconds == 1);
  CHECK(find(events, "data", 1).seconds == 0.5);
  CHECK(find(events, "checkpoint", 8).seconds == 1);
  const TraceEvent& other = find(events, "attention", 3.1);  // named by what it was for
  CHECK(other.thread == 1);
  CHECK(other.seconds == 0.8);
}

TEST_CASE("slices of a thread nest") {
  std::vector<double> ends;  // of what is open
  for (const TraceEvent& event : trace_events(step_slices())) {
    if (event.thread != 0) continue;
    while (!ends.empty() && ends.back() <= event.begin) ends.pop_back();
    if (!ends.empty()) CHECK(event.begin + event.seconds <= ends.back());
    ends.push_back(event.begin + event.seconds);
  }
}

TEST_CASE("the file is JSON when it is finished, and one bracket short of it before") {
  const TemporaryDirectory directory;
  Files files;
  const auto path = directory / "trace.json";
  test::put(path, "what was there before, longer than what comes, or perhaps not: it has to go\n");
  TraceWriter writer(files, path);
  CHECK(writer.add(trace_events(step_slices())));
  const auto before = nlohmann::json::parse(test::get(path) + "]");
  writer.finish();
  const auto trace = nlohmann::json::parse(test::get(path));
  CHECK(trace == before);
  std::map<std::string, int> kinds;
  for (const auto& event : trace) {
    kinds[event.at("ph")]++;
    if (event["ph"] != "X") continue;
    for (const char* key : {"name", "cat", "ts", "dur", "pid", "tid", "args"}) CHECK(event.contains(key));
    if (event["name"] == "linear" && event["ts"] == 2e6) {
      CHECK(event["dur"] == 1e6);
      CHECK(event["args"]["flops"] == 8);
      CHECK(event["args"]["bytes"] == 4);
      CHECK(event["args"]["module"] == "decoder.blocks.0.attention.qkv");
    }
  }
  CHECK(kinds["X"] == static_cast<int>(trace_events(step_slices()).size()));
  CHECK(kinds["M"] == 3);  // the process and two threads
}

TEST_CASE("a trace stops before its file is larger than viewers open, and is still whole") {
  const TemporaryDirectory directory;
  Files files;
  TraceWriter writer(files, directory / "trace.json", 100'000);
  const std::vector<TraceEvent> some(20, {std::string(1000, 'x'), "forward", "", 0, 0, 0, {}});
  int times = 0;
  while (writer.add(some)) REQUIRE(++times < 10);
  CHECK(times == 4);
  CHECK(std::filesystem::file_size(directory / "trace.json") <= 100'000);
  writer.finish();
  CHECK(nlohmann::json::parse(test::get(directory / "trace.json")).size() > 85);
}
