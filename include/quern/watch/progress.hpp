// How far a long piece of work has come, on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "quern/watch/terminal.hpp"

namespace quern {

/// "evaluating 120/400 30% | ETA 0:12", redrawn at most ten times a second, from half a second after the
/// start on, and gone at the end. Nothing at all where a line cannot be redrawn.
class ProgressLine {
 public:
  using Clock = std::chrono::steady_clock;

  /// `total` 0: nobody knows.
  ProgressLine(const Terminal& terminal, std::string what, std::int64_t total);
  ~ProgressLine() { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `done` of the total; `detail` comes behind it.
  void update(std::int64_t done, const std::string& detail = "");
  /// Takes the line away, so that something else can be written; the next update draws it again.
  void erase();

 private:
  Terminal terminal_;
  std::string what_;
  std::int64_t total_;
  Clock::time_point begin_ = Clock::now(), drawn_ = begin_;
  bool shown_ = false;
};

/// The line's text: `seconds` went by for `done` of `total`.
std::string progress_text(const std::string& what, std::int64_t done, std::int64_t total, double seconds,
                          const std::string& detail);

}  // namespace quern
