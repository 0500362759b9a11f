#include "quern/base/profile.hpp"

#include "catch.hpp"
#include "quern/base/check.hpp"
#include "quern/base/parallel.hpp"

using namespace quern;

TEST_CASE("slices are kept while a profile records, and only then") {
  Profile profile;
  { const ScopedSlice before(Phase::data, "before"); }
  profile.start();
  CHECK(Profile::active() == &profile);
  {
    const ScopedSlice outer(Phase::forward, "outer", {8, 12}, "a.b");
    const ScopedSlice inner(Phase::backward, "inner");
  }
  profile.stop();
  { const ScopedSlice after(Phase::data, "after"); }
  REQUIRE(profile.slices().size() == 2);
  const Slice &inner = profile.slices()[0], &outer = profile.slices()[1];  // the inner one ends first
  CHECK(inner.name == "inner");
  CHECK(inner.module.empty());
  CHECK(inner.phase == Phase::backward);
  CHECK(outer.name == "outer");
  CHECK(outer.module == "a.b");
  CHECK(outer.cost.flops == 8);
  CHECK(outer.cost.bytes == 12);
  CHECK(outer.begin <= inner.begin);
  CHECK(inner.begin + inner.seconds <= outer.begin + outer.seconds);
}

TEST_CASE("a profile that dies records no more, and two at a time are a bug") {
  {
    Profile one;
    one.start();
    Profile other;
    CHECK_THROWS_AS(other.start(), Bug);
  }
  CHECK(Profile::active() == nullptr);
}

TEST_CASE("the other threads of a parallel loop have slices of their own") {
  Profile profile;
  const int before = thread_count();
  set_thread_count(2);
  std::vector<int> done(64);
  profile.start();
  {
    const ScopedSlice op(Phase::forward, "op");
    parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) done[static_cast<std::size_t>(i)]++;
    });
  }
  profile.stop();
  set_thread_count(before);
  CHECK(done == std::vector<int>(64, 1));
  REQUIRE(profile.slices().size() == 2);
  CHECK(profile.slices()[0].thread == 1);
  CHECK(profile.slices()[0].phase == Phase::thread);
  CHECK(profile.slices()[1].thread == 0);
}
