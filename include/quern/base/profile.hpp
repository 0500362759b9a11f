// Where time goes: named slices of a step, kept while a profile records. With none recording a slice costs
// one branch.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace quern {

/// The time between laps, by the steady clock.
class Stopwatch {
 public:
  /// Milliseconds since the last lap, or since this watch was made.
  double lap_ms() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// What an operation takes, from its shapes. Arithmetic is that of products alone, a multiply-add counting
/// two (Kaplan et al. 2020, 2001.08361, section 2.1); what else is done to each number is judged by the
/// traffic: every tensor read or written counts once, vectors of one number a column or row do not.
struct Cost {
  double flops = 0, bytes = 0;
};

inline Cost operator+(Cost a, Cost b) { return {a.flops + b.flops, a.bytes + b.bytes}; }

/// What a slice is part of.
enum class Phase : std::uint8_t { step, data, forward, backward, optimizer, evaluation, checkpoint, thread };

/// "step", "data", …
std::string_view name(Phase phase);

struct Slice {
  std::string_view name;    // what was done: "linear"
  std::string_view module;  // for whom: "decoder.blocks.0.attention.qkv"; empty when nobody in particular
  Phase phase = Phase::step;
  int thread = 0;                 // 0: the one that trains; others hold what they did for it
  double begin = 0, seconds = 0;  // begin: since the profile was made
  Cost cost;
};

/// Slices in the order in which they ended; those of one thread nest. The texts that they name outlive it.
class Profile {
 public:
  Profile() = default;
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  ~Profile() { stop(); }

  /// The profile that records now, or null.
  static Profile* active() { return active_; }
  /// Begins to record: from now on this is the active profile. There may be one at a time.
  void start();
  void stop();

  /// Seconds since the profile was made.
  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - made_).count();
  }
  /// From any thread, and where nothing may be thrown.
  void add(const Slice& slice) noexcept;

  /// Throws std::bad_alloc when there was no memory for one of them.
  const std::vector<Slice>& slices() const {
    if (incomplete_) throw std::bad_alloc();
    return slices_;
  }
  void clear() { slices_.clear(); }

 private:
  static inline Profile* active_ = nullptr;

  std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::vector<Slice> slices_;
  bool incomplete_ = false;
};

/// A slice from here to the closing brace, on the thread that trains. `name` is a literal.
class ScopedSlice {
 public:
  ScopedSlice(Phase phase, std::string_view name, Cost cost = {}, std::string_view module = {})
      : profile_(Profile::active()) {
    if (profile_ != nullptr) [[unlikely]]
      slice_ = {name, module, phase, 0, profile_->now(), 0, cost};
  }
  ~ScopedSlice() {
    if (profile_ != nullptr) [[unlikely]]
      end();
  }
  ScopedSlice(const ScopedSlice&) = delete;
  ScopedSlice& operator=(const ScopedSlice&) = delete;

 private:
  void end();

  Profile* profile_;
  Slice slice_;
};

}  // namespace quern
