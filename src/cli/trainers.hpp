// Other processes of this program that train.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quern::cli {

/// Processes of this program. Each is in a process group of its own, so that a terminal's interrupt reaches
/// this process alone, which passes it on once; and each is told to stop when this process dies.
class Trainers {
 public:
  struct Ended {
    std::string name;
    int code = 0;        // the exit code, or 128 + the signal that ended it
    std::string errors;  // what it wrote to stderr
  };

  Trainers() = default;
  Trainers(const Trainers&) = delete;
  Trainers& operator=(const Trainers&) = delete;
  ~Trainers();

  /// Starts `quern words…`. Throws Error(io) when the system refuses.
  void start(const std::string& name, const std::vector<std::string>& words);
  std::int64_t running() const { return static_cast<std::int64_t>(children_.size()); }
  /// Sends the signal to each that has not got one yet.
  void stop(int signal);
  /// Waits a tenth of a second at most for one to end.
  std::optional<Ended> wait();

 private:
  struct Child {
    std::string name;
    pid_t pid;
    int errors;  // a file in memory
    bool stopped = false;
  };
  std::vector<Child> children_;
};

}  // namespace quern::cli
