// A profile as a Chrome trace (JSON array form, one event a line), which Perfetto and chrome://tracing open.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "quern/base/files.hpp"
#include "quern/base/profile.hpp"

namespace quern {

/// One line of a trace: a slice of one thread.
struct TraceEvent {
  std::string name, category, module;  // module: the path, may be empty
  int thread = 0;
  double begin = 0, seconds = 0;  // begin: since the profile was made
  Cost cost;
};

/// The slices in order of their begin, with slices for what they lie in: what follows each other in one phase
/// and one module lies in a slice of that phase, then one of each module along the path. Steps, evaluations
/// and checkpoints hold what happened in them. Slices of one thread nest, none overlaps another in part. What
/// another thread did has the name of the operation that it was for.
std::vector<TraceEvent> trace_events(const std::vector<Slice>& slices);

/// The file; each call adds whole lines, so that a trace which is cut short can still be opened. Throws Error
/// io.
class TraceWriter {
 public:
  /// Replaces what is at `path`. 200 MB are about what viewers open.
  TraceWriter(Files& files, const std::filesystem::path& path, std::size_t most_bytes = 200'000'000);

  /// Adds the events; false when the file would come to more than `most_bytes`: it then holds what fitted.
  bool add(const std::vector<TraceEvent>& events);
  /// The array's end. A trace without it is whole, too.
  void finish();

 private:
  File file_;
  std::size_t most_bytes_, bytes_ = 0;
  int threads_ = 0;  // that have a name
};

}  // namespace quern
