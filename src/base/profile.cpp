#include "quern/base/profile.hpp"

#include "quern/base/check.hpp"

namespace quern {

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::step: return "step";
    case Phase::data: return "data";
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::optimizer: return "optimizer";
    case Phase::evaluation: return "evaluation";
    case Phase::checkpoint: return "checkpoint";
    case Phase::thread: return "thread";
  }
  return "";
}

void Profile::start() {
  QUERN_CHECK(active_ == nullptr || active_ == this);
  active_ = this;
}

void Profile::stop() {
  if (active_ == this) active_ = nullptr;
}

void Profile::add(const Slice& slice) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    slices_.push_back(slice);
  } catch (const std::bad_alloc&) {
    incomplete_ = true;
  }
}

void ScopedSlice::end() {
  slice_.seconds = profile_->now() - slice_.begin;
  profile_->add(slice_);
}

}  // namespace quern
