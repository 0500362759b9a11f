#include "trainers.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "quern/base/check.hpp"

namespace quern::cli {

namespace {

constexpr std::size_t most_error_bytes = 4096;

/// The last bytes of a file in memory.
std::string tail_of(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::min<off_t>(size, most_error_bytes)), '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// In the child: nothing here allocates.
[[noreturn]] void become(const char* const* argv, int errors, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);  // it died before that
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  ::execv("/proc/self/exe", const_cast<char* const*>(argv));
  ::_exit(127);
}

}  // namespace

Trainers::~Trainers() {
  for (const Child& child : children_) {
    ::kill(child.pid, SIGTERM);
    ::waitpid(child.pid, nullptr, 0);
    ::close(child.errors);
  }
}

void Trainers::start(const std::string& name, const std::vector<std::string>& words) {
  std::vector<const char*> argv = {"quern"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  argv.push_back(nullptr);
  const int errors = ::memfd_create("stderr", MFD_CLOEXEC);
  const pid_t parent = ::getpid();
  const pid_t pid = errors < 0 ? -1 : ::fork();
  if (pid == 0) become(argv.data(), errors, parent);
  if (pid < 0) {
    const int reason = errno;
    if (errors >= 0) ::close(errors);
    throw Error(ErrorKind::io, std::string("cannot start another process: ") + std::strerror(reason),
                "fewer --jobs");
  }
  children_.push_back({name, pid, errors});
}

void Trainers::stop(int signal) {
  for (Child& child : children_) {
    if (!child.stopped) ::kill(child.pid, signal);
    child.stopped = true;
  }
}

std::optional<Trainers::Ended> Trainers::wait() {
  for (int i = 0; i < 10; ++i) {
    for (std::size_t k = 0; k < children_.size(); ++k) {
      int status = 0;
      if (::waitpid(children_[k].pid, &status, WNOHANG) <= 0) continue;
      const Child child = children_[k];
      children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(k));
      Ended ended{child.name, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                  tail_of(child.errors)};
      ::close(child.errors);
      return ended;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::nullopt;
}

}  // namespace quern::cli
