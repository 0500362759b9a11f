#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/base/descriptor.hpp"
#include "quern/base/suggest.hpp"
#include "quern/watch/progress.hpp"
#include "quern/watch/terminal.hpp"

namespace quern::cli {

void write_out(std::string_view text) {
  if (!write_all(STDOUT_FILENO, text, "cannot write to standard output")) throw OutputClosed{};
}

void write_json(const nlohmann::ordered_json& object) {
  write_out(harmless_json(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) +
            "\n");
}

void say(std::string_view line) { std::fprintf(stderr, "%s\n", harmless(line).c_str()); }

std::function<void(std::int64_t, std::int64_t)> reading_line() {
  const auto line = std::make_shared<std::optional<ProgressLine>>();
  return [line](std::int64_t done, std::int64_t total) {
    constexpr std::int64_t mebibyte = 1 << 20;
    if (!*line) line->emplace(inspect_terminal(STDERR_FILENO), "reading text, MiB", total / mebibyte);
    if (done < total) return (*line)->update(done / mebibyte);
    line->reset();
  };
}

void finish_output() {
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && !std::ferror(stdout)) return;
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, 0) == 1 && (out.revents & POLLERR)) throw OutputClosed{};
  throw Error(ErrorKind::io, "cannot write to standard output");
}

}  // namespace quern::cli
