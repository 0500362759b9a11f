#include "quern/watch/trace.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace quern {
namespace {

/// The levels that a slice lies in: its phase, then the modules along the path; "blocks.0" is one.
std::vector<std::string> levels(const Slice& slice) {
  std::vector<std::string> found = {std::string(name(slice.phase))};
  for (std::size_t begin = 0; begin < slice.module.size();) {
    const std::size_t dot = std::min(slice.module.find('.', begin), slice.module.size());
    const std::string part(slice.module.substr(begin, dot - begin));
    const bool number =
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); });
    if (number && found.size() > 1) {
      found.back() += "." + part;
    } else {
      found.push_back(part);
    }
    begin = dot + 1;
  }
  return found;
}

bool holds_others(Phase phase) {
  return phase == Phase::step || phase == Phase::evaluation || phase == Phase::checkpoint;
}

/// The slices that are open while events are made in order.
class Nesting {
 public:
  std::vector<TraceEvent> events;

  void add(const Slice& slice) {
    if (slice.thread != 0) {
      events.push_back({operation_, "thread", "", slice.thread, slice.begin, slice.seconds, slice.cost});
      return;
    }
    if (holds_others(slice.phase)) {
      close(0);
    } else {
      open(levels(slice), slice);
      operation_ = slice.name;
    }
    events.push_back({std::string(slice.name), std::string(name(slice.phase)), std::string(slice.module), 0,
                      slice.begin, slice.seconds, slice.cost});
    if (!holds_others(slice.phase)) end_ = slice.begin + slice.seconds;
  }

  /// Ends all but the outermost `keep` levels where the last slice ended.
  void close(std::size_t keep) {
    for (; open_.size() > keep; open_.pop_back())
      events[open_.back().event].seconds = end_ - events[open_.back().event].begin;
  }

 private:
  struct Level {
    std::string name;
    std::size_t event;
  };

  void open(const std::vector<std::string>& path, const Slice& slice) {
    std::size_t same = 0;
    while (same < path.size() && same < open_.size() && open_[same].name == path[same]) ++same;
    close(same);
    for (std::size_t i = same; i < path.size(); ++i) {
      open_.push_back({path[i], events.size()});
      events.push_back({path[i], path[0], "", 0, slice.begin, 0, {}});
    }
  }

  std::vector<Level> open_;
  std::string operation_ = "chunks";
  double end_ = 0;
};

std::string line_of(const TraceEvent& event, int process) {
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  if (!event.module.empty()) arguments["module"] = event.module;
  if (event.cost.flops > 0) arguments["flops"] = event.cost.flops;
  if (event.cost.bytes > 0) arguments["bytes"] = event.cost.bytes;
  const auto quoted = [](const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  char times[96];  // microseconds; whole nanoseconds, so that ends meet
  std::snprintf(times, sizeof times, "\"ts\":%.3f,\"dur\":%.3f", event.begin * 1e6, event.seconds * 1e6);
  return "{\"name\":" + quoted(event.name) + ",\"cat\":" + quoted(event.category) + ",\"ph\":\"X\"," + times +
         ",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(event.thread) +
         ",\"args\":" + arguments.dump() + "}";
}

std::string name_line(const char* kind, const std::string& name, int process, int thread) {
  return nlohmann::ordered_json{
      {"name", kind}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}}
      .dump();
}

}  // namespace

std::vector<TraceEvent> trace_events(const std::vector<Slice>& slices) {
  std::vector<const Slice*> order;
  for (const Slice& slice : slices) order.push_back(&slice);
  // A slice ends, and so was kept, before the one that holds it.
  std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const Slice* a, const Slice* b) { return a->begin < b->begin; });
  Nesting nesting;
  for (const Slice* slice : order) nesting.add(*slice);
  nesting.close(0);
  return std::move(nesting.events);
}

TraceWriter::TraceWriter(Files& files, const std::filesystem::path& path, std::size_t most_bytes)
    : file_(files.open_or_create(path)), most_bytes_(most_bytes) {
  file_.truncate(0);
  const std::string head = "[\n" + name_line("process_name", "quern", getpid(), 0);
  file_.write(head);
  bytes_ = head.size();
}

bool TraceWriter::add(const std::vector<TraceEvent>& events) {
  std::string text;
  bool room = true;
  for (const TraceEvent& event : events) {
    for (; threads_ <= event.thread; ++threads_)
      text +=
          ",\n" + name_line("thread_name", threads_ == 0 ? "training" : "thread " + std::to_string(threads_),
                            getpid(), threads_);
    std::string line = ",\n" + line_of(event, getpid());
    room = bytes_ + text.size() + line.size() <= most_bytes_;
    if (!room) break;
    text += line;
  }
  file_.write(text);
  bytes_ += text.size();
  return room;
}

void TraceWriter::finish() {
  file_.write("\n]\n");
  file_.sync();
}

}  // namespace quern
