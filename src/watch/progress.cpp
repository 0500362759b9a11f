#include "quern/watch/progress.hpp"

#include <unistd.h>

#include <algorithm>

#include "quern/watch/format.hpp"

namespace quern {

std::string progress_text(const std::string& what, std::int64_t done, std::int64_t total, double seconds,
                          const std::string& detail) {
  std::string text = what + " " + grouped(done);
  if (total > 0) text += "/" + grouped(total) + " " + std::to_string(100 * done / total) + "%";
  if (!detail.empty()) text += " | " + detail;
  if (total > 0 && done > 0)
    text += " | ETA " + clock_time(seconds * static_cast<double>(total - done) / static_cast<double>(done));
  return text;
}

ProgressLine::ProgressLine(const Terminal& terminal, std::string what, std::int64_t total)
    : terminal_(terminal), what_(std::move(what)), total_(total) {}

void ProgressLine::update(std::int64_t done, const std::string& detail) {
  if (!terminal_.live) return;
  const auto now = Clock::now();
  if (now - begin_ < std::chrono::milliseconds(500) || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const std::string text = harmless(progress_text(what_, done, total_, seconds, detail), !terminal_.utf8);
  const int width = std::max(1, terminal_width(terminal_.fd) - 1);
  const std::string line = "\r" + fit(text, width, !terminal_.utf8) + "\x1b[J\r";
  shown_ = ::write(terminal_.fd, line.data(), line.size()) > 0;  // a terminal that is gone is no trouble
}

void ProgressLine::erase() {
  constexpr std::string_view away = "\r\x1b[J";
  if (shown_) [[maybe_unused]]
    const auto written = ::write(terminal_.fd, away.data(), away.size());
  shown_ = false;
}

}  // namespace quern
