// Files whose Nth system call fails or is the last one of the process.
#pragma once

#include <cerrno>
#include <string>

#include "quern/base/files.hpp"

namespace quern::test {

/// Thrown where the process would have died; nobody may catch it but the test.
struct Death {};

enum class Fault {
  none,
  fail_once,    // the Nth call reports `error`
  fail_always,  // the Nth call and all later ones do
  die_before,   // the process dies instead of the Nth call
  die_within,   // … half-way through it, if it writes
  die_after,    // … just after it
};

class FaultyFiles : public Files {
 public:
  FaultyFiles() = default;
  FaultyFiles(Fault fault, int at, int error = EIO) : fault_(fault), at_(at), error_(error) {}

  /// System calls so far.
  int calls() const { return calls_; }

 protected:
  int system_open(int directory, const char* path, int flags, mode_t mode) override {
    return pass([&] { return Files::system_open(directory, path, flags, mode); });
  }
  int system_close(int descriptor) override {
    const int result = Files::system_close(descriptor);  // also of a process that dies
    return dead_ ? result : pass([&] { return result; });
  }
  ssize_t system_write(int descriptor, const void* data, std::size_t bytes) override {
    return pass([&] { return Files::system_write(descriptor, data, bytes); },
                [&] { Files::system_write(descriptor, data, bytes / 2); });
  }
  ssize_t system_pread(int descriptor, void* data, std::size_t bytes, off_t offset) override {
    return pass([&] { return Files::system_pread(descriptor, data, bytes, offset); });
  }
  int system_preallocate(int descriptor, off_t bytes) override {
    return pass([&] { return Files::system_preallocate(descriptor, bytes); });
  }
  int system_truncate(int descriptor, off_t bytes) override {
    return pass([&] { return Files::system_truncate(descriptor, bytes); });
  }
  int system_sync(int descriptor) override {
    return pass([&] { return Files::system_sync(descriptor); });
  }
  int system_rename(const char* from, const char* to, unsigned flags) override {
    return pass([&] { return Files::system_rename(from, to, flags); });
  }
  int system_unlink(int directory, const char* path, int flags) override {
    return pass([&] { return Files::system_unlink(directory, path, flags); });
  }
  int system_mkdir(const char* path, mode_t mode) override {
    return pass([&] { return Files::system_mkdir(path, mode); });
  }
  int system_symlink(const char* target, const char* path) override {
    return pass([&] { return Files::system_symlink(target, path); });
  }

 private:
  template <class Call>
  auto pass(Call call) -> decltype(call()) {
    return pass(call, [] {});
  }

  template <class Call, class Half>
  auto pass(Call call, Half half) -> decltype(call()) {
    if (dead_) throw Death();
    ++calls_;
    const bool hit = calls_ == at_;
    if ((fault_ == Fault::fail_once && hit) || (fault_ == Fault::fail_always && calls_ >= at_)) {
      errno = error_;
      return -1;
    }
    const bool dies =
        fault_ == Fault::die_before || fault_ == Fault::die_within || fault_ == Fault::die_after;
    if (!hit || !dies) return call();
    dead_ = true;
    if (fault_ == Fault::die_within) half();
    if (fault_ == Fault::die_after) call();
    throw Death();
  }

  Fault fault_ = Fault::none;
  int at_ = 0;
  int error_ = EIO;
  int calls_ = 0;
  bool dead_ = false;
};

}  // namespace quern::test
