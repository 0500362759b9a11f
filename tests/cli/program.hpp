// Runs the built program as a user does.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "base/temporary_directory.hpp"

extern char** environ;

namespace quern::test {

struct Outcome {
  int code = 0;  // the exit code, or 128 + the signal that ended it
  std::string out, err;
};

/// A running program, its output in files of the directory.
class Program {
 public:
  Program(const std::vector<std::string>& arguments, const TemporaryDirectory& directory,
          const std::vector<std::string>& environment = {})
      : out_(directory / "stdout.txt"), err_(directory / "stderr.txt") {
    std::vector<std::string> words = {QUERN_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables;
    for (char** v = environ; *v != nullptr; ++v) variables.emplace_back(*v);
    variables.insert(variables.end(), environment.begin(), environment.end());
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_addopen(&actions, 2, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const int error = posix_spawn(&pid_, QUERN_PROGRAM, &actions, nullptr, pointers(words).data(),
                                  pointers(variables).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error(std::string("cannot run ") + QUERN_PROGRAM);
  }

  pid_t pid() const { return pid_; }
  std::string out() const { return get(out_); }
  std::string err() const { return get(err_); }

  Outcome wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0) {
    }
    return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), out(), err()};
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> out;
    for (std::string& w : words) out.push_back(w.data());
    out.push_back(nullptr);
    return out;
  }

  std::filesystem::path out_, err_;
  pid_t pid_ = -1;
};

inline Outcome run(const std::vector<std::string>& arguments, const TemporaryDirectory& directory) {
  return Program(arguments, directory).wait();
}

}  // namespace quern::test
