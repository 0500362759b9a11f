#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/watch/terminal.hpp"

namespace quern::cli {

void write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      throw OutputClosed{};
    } else if (errno != EINTR) {
      throw Error(ErrorKind::io, std::string("cannot write to standard output: ") + std::strerror(errno));
    }
  }
}

void write_json(const nlohmann::ordered_json& object) {
  write_out(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void say(std::string_view line) { std::fprintf(stderr, "%s\n", harmless(line).c_str()); }

void finish_output() {
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && !std::ferror(stdout)) return;
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, 0) == 1 && (out.revents & POLLERR)) throw OutputClosed{};
  throw Error(ErrorKind::io, "cannot write to standard output");
}

}  // namespace quern::cli
