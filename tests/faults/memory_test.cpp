// The machine has no memory for the Nth thing that is asked of it, for any N: exit 6, and what is saved is
// intact.
#include <atomic>
#include <cstdlib>
#include <new>

#include "cli/runs.hpp"
#include "faults/long_tests.hpp"
#include "quern/train/checkpoint_store.hpp"
#include "quern/train/session.hpp"

using namespace quern;
using namespace quern::test;

#if !defined(__SANITIZE_ADDRESS__)  // which needs all of the address space, and its own malloc
namespace {

std::atomic<long> asked = 0, first_refused = 0, last_refused = -1;  // counted from 1; none: first above last

bool refused() {
  const long n = ++asked;
  return n >= first_refused && n <= last_refused;
}

}  // namespace

// What this executable asks of operator new and of aligned_alloc (tensors' memory) is counted, and refused
// where a test says so; what it gives is malloc's, as ever.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* p = refused() ? nullptr : std::malloc(bytes != 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
extern "C" [[gnu::noinline]] void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  void* p = nullptr;
  return refused() || ::posix_memalign(&p, alignment, bytes) != 0 ? nullptr : p;
}

namespace {

struct Small {
  TemporaryDirectory directory;
  Files files;

  Small() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "Number " + std::to_string(i * 37 % 101) + ".\n";
    put(directory / "text.txt", text);
  }
  int train(const std::string& name, const std::string& resume = "auto") {
    TrainRequest request;
    request.run_dir = directory / name;
    request.resume = resume;
    for (const char* set :
         {"model.d_model=8", "model.n_layers=1", "model.n_heads=2", "model.context_length=8",
          "data.tokenizer=char", "run.max_steps=3", "run.batch_size=2", "run.checkpoint_interval=1",
          "schedule.warmup_steps=0", "run.eval_interval=2", "run.eval_batches=1", "run.threads=1"})
      request.sets.emplace_back(set);
    request.sets.push_back("data.text=" + (directory / "text.txt").string());
    return quern::train(files, request).exit_code;
  }
};

enum class Result { done = 0, no_memory = 6, other = 1 };

/// As the program does: memory that runs out where no exception may pass is an end like any other.
[[noreturn]] void on_terminate() {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    ::_exit(static_cast<int>(Result::no_memory));
  } catch (...) {
  }
  ::_exit(static_cast<int>(Result::other));
}

/// In a process of its own: trains while requests from `first` to `last` are refused.
[[noreturn]] void train_here(Small& small, const std::string& name, long first, long last) {
  std::set_terminate(on_terminate);
  Result result = Result::done;
  asked = 0;
  first_refused = first;
  last_refused = last;
  try {
    small.train(name);
  } catch (const std::bad_alloc&) {
    result = Result::no_memory;
  } catch (const Error& error) {
    result = error.kind == ErrorKind::memory ? Result::no_memory : Result::other;
  }
  ::_exit(static_cast<int>(result));
}

Result train_without(Small& small, const std::string& name, long first, long last) {
  const pid_t child = ::fork();
  if (child == 0) train_here(small, name, first, last);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? static_cast<Result>(WEXITSTATUS(status)) : Result::other;
}

}  // namespace

TEST_CASE(
    "any request for memory refused, once or from then on: out of memory, and the run goes on to the same "
    "end") {
  Small small;
  REQUIRE(small.train("warm") == 0);  // what is made once is made now, so that all runs ask for the same
  asked = 0;
  REQUIRE(small.train("whole") == 0);
  const long all = asked;
  REQUIRE(all > 1000);
  const long stride = std::max(1L, all / times(60, 1'000'000));
  int refusals = 0;
  for (const bool once : {true, false}) {
    for (long at = 1; at <= all; at += stride) {
      const Result result = train_without(small, "run", at, once ? at : all * 10);
      CAPTURE(at, once, all);
      REQUIRE((result == Result::done || result == Result::no_memory));
      refusals += result == Result::no_memory;
      CheckpointStore store(small.files, small.directory / "run");
      for (const std::int64_t step : store.steps())
        CHECK_NOTHROW(open_checkpoint(small.files, store.path_of(step)));
      if (result == Result::no_memory) REQUIRE(small.train("run") == 0);
      check_same_run(small.directory / "run", small.directory / "whole");
      std::filesystem::remove_all(small.directory / "run");
    }
  }
  CHECK(refusals >= 100);
}

TEST_CASE("a process that may not grow at any moment of its training: exit 0 or 6, never another end") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "run", whole = directory / "whole";
  const std::vector<std::string> settings = {"run.max_steps=400", "run.checkpoint_interval=50"};
  REQUIRE(run(resume_words(whole, settings), directory).code == 0);
  for (const char* step : {"\"step\":1,", "\"step\":30,", "\"step\":110,"}) {
    Program program(resume_words(path, settings), directory);
    REQUIRE(wait_for_metrics(program, path, step));
    const rlimit none{1, RLIM_INFINITY};
    ::prlimit(program.pid(), RLIMIT_AS, &none, nullptr);
    const Outcome o = program.wait();
    CAPTURE(step, o.code, o.err);
    CHECK((o.code == 0 || o.code == 6));
    REQUIRE(run(resume_words(path, settings), directory).code == 0);
    check_same_run(path, whole);
    std::filesystem::remove_all(path);
  }
}
#endif
