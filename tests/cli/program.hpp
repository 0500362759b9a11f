// Runs the built program as a user does.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/temporary_directory.hpp"

extern char** environ;

namespace quern::test {

struct Outcome {
  int code = 0;            // the exit code, or 128 + the signal that ended it
  bool by_signal = false;  // it did not exit by itself
  std::string out, err;
};

/// How a program is started, where that is not as usual.
struct Start {
  std::vector<std::string> environment = {};  // NAME=value sets a variable, NAME alone takes it away
  std::string folder = {};                    // where it runs; empty: where the test does
  /// Descriptors in place of the files that take stdout and stderr; `closed`: the program has none.
  std::optional<int> out = {}, err = {};
  uid_t user = 0;              // not 0: the user that it becomes
  rlim_t descriptors = 0;      // not 0: as many may be open at once
  rlim_t processes = 0;        // not 0: so many processes and threads may the user have
  bool ignore_hangup = false;  // as under nohup
  std::string in = {};         // what it reads; empty: nothing
  rlim_t address_space = 0;    // not 0: so many bytes may be mapped
  static constexpr int closed = -1;
};

/// A running program, its output in files of the directory. A signal that is sent to it finds the program,
/// and not the test's copy that is about to become it.
class Program {
 public:
  Program(const std::vector<std::string>& arguments, const TemporaryDirectory& directory,
          const Start& start = {})
      : out_(directory / "stdout.txt"), err_(directory / "stderr.txt") {
    std::vector<std::string> words = {QUERN_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables = surroundings(start.environment);
    const std::vector<char*> argv = pointers(words), envp = pointers(variables);
    // By descriptor: another user may be kept out of the directories above the program.
    const int program = ::open(QUERN_PROGRAM, O_RDONLY | O_CLOEXEC);
    const int in = ::open(start.in.empty() ? "/dev/null" : start.in.c_str(), O_RDONLY | O_CLOEXEC);
    const int out = start.out ? *start.out : create(out_), err = start.err ? *start.err : create(err_);
    int started[2] = {-1, -1};  // closed when the program has taken the child's place, or the child has ended
    if (::pipe2(started, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      become(start, in, out, err);
      ::fexecve(program, argv.data(), envp.data());
      [[maybe_unused]] const auto told = ::write(started[1], "x", 1);
      ::_exit(127);
    }
    for (const int fd : {program, in, started[1]}) ::close(fd);
    if (!start.out) ::close(out);
    if (!start.err) ::close(err);
    char failed = 0;
    const ssize_t got = pid_ < 0 ? 1 : ::read(started[0], &failed, 1);
    ::close(started[0]);
    if (got != 0 || program < 0) throw std::runtime_error(std::string("cannot run ") + QUERN_PROGRAM);
  }

  pid_t pid() const { return pid_; }
  std::string out() const { return get(out_); }
  std::string err() const { return get(err_); }

  Outcome wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0) {
    }
    const bool by_signal = WIFSIGNALED(status);
    return {by_signal ? 128 + WTERMSIG(status) : WEXITSTATUS(status), by_signal, out(), err()};
  }

 private:
  /// In the child, until the program takes its place: system calls only.
  static void become(const Start& start, int in, int out, int err) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE}) std::signal(signal, SIG_DFL);
    if (start.ignore_hangup) std::signal(SIGHUP, SIG_IGN);
    ::dup2(in, 0);
    out == Start::closed ? ::close(1) : ::dup2(out, 1);
    err == Start::closed ? ::close(2) : ::dup2(err, 2);
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // what the test itself was started with
    const rlimit descriptors{start.descriptors, start.descriptors};
    if (start.descriptors != 0 && ::setrlimit(RLIMIT_NOFILE, &descriptors) != 0) ::_exit(126);
    const rlimit space{start.address_space, start.address_space};
    if (start.address_space != 0 && ::setrlimit(RLIMIT_AS, &space) != 0) ::_exit(126);
    if (!start.folder.empty() && ::chdir(start.folder.c_str()) != 0) ::_exit(126);
    if (start.user != 0 &&
        (::setgroups(0, nullptr) != 0 || ::setgid(start.user) != 0 || ::setuid(start.user) != 0))
      ::_exit(126);
    const rlimit processes{start.processes, start.processes};
    if (start.processes != 0 && ::setrlimit(RLIMIT_NPROC, &processes) != 0) ::_exit(126);
  }

  static int create(const std::filesystem::path& path) {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  }

  /// The test's own variables with these changes.
  static std::vector<std::string> surroundings(const std::vector<std::string>& changes) {
    const auto name = [](std::string_view variable) { return variable.substr(0, variable.find('=')); };
    std::vector<std::string> variables;
    for (char** v = environ; *v != nullptr; ++v) {
      bool kept = true;
      for (const std::string& change : changes) kept = kept && name(change) != name(*v);
      if (kept) variables.emplace_back(*v);
    }
    for (const std::string& change : changes)
      if (change.find('=') != std::string::npos) variables.push_back(change);
    return variables;
  }

  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> out;
    for (std::string& w : words) out.push_back(w.data());
    out.push_back(nullptr);
    return out;
  }

  std::filesystem::path out_, err_;
  pid_t pid_ = -1;
};

inline Outcome run(const std::vector<std::string>& arguments, const TemporaryDirectory& directory,
                   const Start& start = {}) {
  return Program(arguments, directory, start).wait();
}

}  // namespace quern::test
