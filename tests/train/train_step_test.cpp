#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>

#include "catch.hpp"
#include "quern/train/trainer.hpp"

// AddressSanitizer counts and gives memory itself.
#if !defined(__SANITIZE_ADDRESS__)

using namespace quern;

namespace {

std::atomic<bool> counting = false;
std::atomic<int> own_allocations = 0, library_allocations = 0;
thread_local bool inside = false;

/// Whether the allocation was asked for by this program, the C++ library's frames aside, or by a library.
[[gnu::noinline]] bool asked_by_program() {
  static const void* const program = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<const void*>(&asked_by_program), &info);
    return info.dli_fbase;
  }();
  void* frames[16];
  const int n = backtrace(frames, 16);
  for (int i = 3; i < n; ++i) {  // this function, count, operator new
    Dl_info info{};
    if (dladdr(frames[i], &info) == 0) continue;
    if (std::string_view(info.dli_fname).find("libstdc++") != std::string_view::npos) continue;
    return info.dli_fbase == program;
  }
  return true;
}

[[gnu::noinline]] void count() {
  if (!counting || inside) return;
  inside = true;  // backtrace may allocate, too
  (asked_by_program() ? own_allocations : library_allocations)++;
  inside = false;
}

}  // namespace

// Counts what this test executable asks of operator new; what it gives is malloc's, as ever.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  count();
  if (void* p = std::malloc(bytes != 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  count();
  return std::malloc(bytes != 0 ? bytes : 1);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return ::aligned_alloc(static_cast<std::size_t>(alignment), bytes);
}
extern "C" [[gnu::noinline]] void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  count();
  void* p = nullptr;
  return posix_memalign(&p, alignment, bytes) == 0 ? p : nullptr;
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace {

/// What a few steps on random tokens ask for after the first two, by us and by libraries.
struct Asked {
  int own = 0, library = 0;
  std::size_t pool_growth = 0;
};

Config small_config() {
  Config config;
  config.model.d_model = 32;
  config.model.n_layers = 2;
  config.model.context_length = 24;
  config.model.dropout = 0.1;
  config.run.batch_size = 3;
  config.run.grad_accumulation = 2;
  return config;
}

Asked asked_after_two_steps(Config config) {
  std::vector<std::int32_t> ids(500);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 11);
  config.model.vocab_size = 11;
  Model model(config.model, true, type_of(config.run.precision));
  model.parameters().initialise(1);
  Workspace workspace;
  TrainBatches batches(WindowSampler(TokenView(ids), config.model.context_length, config.data.order,
                                     config.run.seed, config.run.batch_size * config.run.grad_accumulation),
                       config.run.batch_size);
  const auto step = [&](std::int64_t i) { train_step(model, workspace, batches, config, i); };
  step(1);
  step(2);
  own_allocations = library_allocations = 0;
  const std::size_t held = workspace.pool.bytes_held();
  counting = true;
  for (std::int64_t i = 3; i <= 6; ++i) step(i);
  counting = false;
  return {own_allocations, library_allocations, workspace.pool.bytes_held() - held};
}

}  // namespace

TEST_CASE("a training step after the first two allocates nothing") {
  Config config = small_config();
  for (const Precision precision : {Precision::f32, Precision::bf16})
    for (const Recompute recompute : {Recompute::none, Recompute::block, Recompute::attention})
      for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::muon})
        for (const PositionKind position :
             {PositionKind::learned, PositionKind::sinusoidal, PositionKind::rope}) {
          config.run.precision = precision;
          config.run.recompute = recompute;
          config.optim.optimizer = optimizer;
          config.model.position = position;
          CAPTURE(static_cast<int>(precision), static_cast<int>(recompute), static_cast<int>(optimizer));
          const Asked asked = asked_after_two_steps(config);
          INFO("oneDNN and others: " << asked.library);
          CHECK(asked.own == 0);
          CHECK(asked.pool_growth == 0);
        }
  // That the count sees anything at all:
  counting = true;
  own_allocations = 0;
  auto* const something = new std::vector<int>(10);
  void* const aligned = std::aligned_alloc(64, 64);
  counting = false;
  CHECK(own_allocations == 3);
  delete something;
  std::free(aligned);
}

TEST_CASE("nor does one of any other kind of attention, or of a recurrent network") {
  using Change = void (*)(ModelConfig&);
  const std::pair<const char*, Change> kinds[] = {
      {"a window with global tokens, ALiBi",
       [](ModelConfig& m) {
         m.attention = AttentionKind::sliding_window;
         m.window = 8, m.global_tokens = 2, m.position = PositionKind::alibi;
       }},
      {"linear", [](ModelConfig& m) { m.attention = AttentionKind::linear; }},
      {"linear, favor",
       [](ModelConfig& m) { m.attention = AttentionKind::linear, m.feature_map = FeatureMap::favor; }},
      {"general scores", [](ModelConfig& m) { m.score = ScoreKind::general; }},
      {"additive scores", [](ModelConfig& m) { m.score = ScoreKind::additive; }},
      {"normalised heads, fewer key heads, SwiGLU",
       [](ModelConfig& m) { m.qk_norm = true, m.n_kv_heads = 1, m.activation = Activation::swiglu; }},
      {"GRU",
       [](ModelConfig& m) {
         m.architecture = Architecture::rnn, m.cell = Cell::gru, m.position = PositionKind::none;
       }},
      {"LSTM", [](ModelConfig& m) {
         m.architecture = Architecture::rnn, m.cell = Cell::lstm, m.position = PositionKind::none;
       }}};
  for (const auto& [name, change] : kinds)
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      Config config = small_config();
      change(config.model);
      config.run.precision = precision;
      CAPTURE(name, static_cast<int>(precision));
      const Asked asked = asked_after_two_steps(config);
      CHECK(asked.own == 0);
      CHECK(asked.pool_growth == 0);
    }
}
#endif
