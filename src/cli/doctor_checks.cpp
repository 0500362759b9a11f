// The self-checks of quern doctor. Each has an oracle of its own: plain loops, differences of the loss, the
// same work on one thread, a text that can be learnt.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "doctor.hpp"
#include "quern/base/arena.hpp"
#include "quern/base/durable.hpp"
#include "quern/base/files.hpp"
#include "quern/base/parallel.hpp"
#include "quern/base/rng.hpp"
#include "quern/kernels/gemm.hpp"
#include "quern/train/optimizer.hpp"
#include "quern/train/trainer.hpp"
#include "quern/watch/format.hpp"

namespace quern::cli {

namespace {

namespace fs = std::filesystem;

/// Two sums of K products in f32, in whatever order, differ by at most 2 K 2^-24 times the sum of the
/// products' sizes (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1).
Check check_product() {
  constexpr std::int64_t M = 65, N = 130, K = 513;
  Pool pool;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return Tensor(static_cast<float*>(pool.allocate(static_cast<std::size_t>(rows * columns) * 4)),
                  {rows, columns});
  };
  const Tensor a = matrix(M, K), b = matrix(K, N), c = matrix(M, N), plain = matrix(M, N),
               sizes = matrix(M, N);
  const RandomStream stream(1, site_hash("doctor"), 0);
  for (const Tensor& t : {a, b})
    for (std::int64_t i = 0; i < t.size(); ++i)
      t.f32()[i] = static_cast<float>(stream.at(static_cast<std::uint64_t>(i), 0)[0]) * 0x1p-31F - 1;
  gemm(c.mat(), a.mat(), b.mat());
  gemm_reference(plain.mat(), a.mat(), b.mat());
  for (const Tensor& t : {a, b})
    for (std::int64_t i = 0; i < t.size(); ++i) t.f32()[i] = std::abs(t.f32()[i]);
  gemm_reference(sizes.mat(), a.mat(), b.mat());
  double worst = 0;
  for (std::int64_t i = 0; i < c.size(); ++i) {
    const double error = std::abs(double{c.f32()[i]} - double{plain.f32()[i]});
    worst = std::max(worst, error / (2 * K * 0x1p-24 * double{sizes.f32()[i]}));
    if (std::isnan(error)) worst = error;
  }
  return {"product against plain loops", worst <= 1,
          "the largest error is " + scientific(100 * worst, 2) + " % of what rounding allows"};
}

/// A small model on tokens that repeat with a period, so that it has something to learn.
struct Subject {
  static constexpr std::int64_t vocabulary = 31, context = 32, rows = 8;

  Subject()
      : store(tokens()),
        model(settings().model, true),
        config(settings()),
        batches(WindowSampler(view(store), context, WindowOrder::random, config.run.seed, rows), rows) {
    model.parameters().initialise(config.run.seed);
  }

  static Config settings() {
    Config config;
    config.model.n_layers = 2;
    config.model.n_heads = 4;
    config.model.d_model = 64;
    config.model.context_length = context;
    config.model.vocab_size = vocabulary;
    config.optim.learning_rate = 3e-3;
    config.schedule.kind = ScheduleKind::constant;
    config.schedule.warmup_steps = 0;
    config.run.batch_size = rows;
    return config;
  }
  static TokenStore tokens() {
    std::vector<std::uint16_t> all(10'000);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::uint16_t>((i % 97) * (i % 97) % vocabulary);
    return TokenStore(std::move(all));
  }

  double loss(bool with_gradient) {
    const Batch batch = batches.batch(0, 0);
    Tape tape(workspace, with_gradient ? Mode::train : Mode::infer);
    const auto count = static_cast<double>(batch.target_tokens);
    const Loss found = model.loss(tape, input_of(batch), batch.targets, count, 0);
    if (with_gradient) tape.backward();
    return found.nll / count;
  }
  std::vector<double> train(std::int64_t steps) {
    std::vector<double> losses;
    for (std::int64_t step = 1; step <= steps; ++step)
      losses.push_back(train_step(model, workspace, batches, config, step).loss);
    return losses;
  }

  TokenStore store;
  Model model;
  Config config;
  TrainBatches batches;
  Workspace workspace;
};

/// Along the gradient g itself the loss changes by |g| a unit of length. The four-point difference is wrong
/// by about h^4 and by the loss's own rounding over h: below a thousandth for h = 0.01.
Check check_gradient() {
  Subject subject;
  ParamStore& parameters = subject.model.parameters();
  parameters.begin_step();
  subject.loss(true);
  parameters.complete_gradients();
  const double norm = gradient_norm(parameters);
  double at = 0;
  const auto moved = [&](double distance) {
    for (std::int64_t i = 0; i < parameters.slab_size(); ++i)
      parameters.values()[i] +=
          static_cast<float>((distance - at) / norm * double{parameters.gradients()[i]});
    at = distance;
    return subject.loss(false);
  };
  constexpr double h = 0.01;
  const double slope = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
  const double error = std::abs(slope - norm) / norm;
  return {"gradient against differences", error < 1e-3,
          "a model of 2 layers, " + scientific(error, 2) + " apart (1e-3 allowed)"};
}

Check check_threads() {
  const int threads = thread_count();
  const std::vector<double> many = Subject().train(20);
  set_thread_count(1);
  const std::vector<double> one = Subject().train(20);
  set_thread_count(threads);
  double worst = 0;
  for (std::size_t i = 0; i < one.size(); ++i) worst = std::max(worst, std::abs(many[i] - one[i]) / one[i]);
  return {"1 thread against " + std::to_string(threads), worst <= 1e-4,
          many == one ? "20 steps, the same bits"
                      : "20 steps, " + scientific(worst, 2) + " apart (1e-4 allowed)"};
}

Check check_learning() {
  const std::vector<double> losses = Subject().train(100);
  return {"learning", losses.back() < losses.front() / 2,
          "100 steps, loss " + fixed(losses.front(), 3) + " to " + fixed(losses.back(), 3) +
              " (half of it allowed)"};
}

}  // namespace

std::vector<Check> check_numbers() {
  return {check_product(), check_gradient(), check_threads(), check_learning()};
}

std::vector<Check> check_directory(const std::string& directory) {
  const fs::path place = fs::path(directory) / (".quern-doctor-" + std::to_string(::getpid()));
  std::vector<Check> checks;
  Files files;
  const std::string first = place / "one", second = place / "two";
  try {
    files.make_directory(place);
    File file = files.create(first);
    file.preallocate(1 << 20);
    file.write(std::string(1 << 20, 'q'));
    const auto begin = std::chrono::steady_clock::now();
    file.sync();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    files.rename_new(first, second);
    files.sync_directory(place);
    checks.push_back(
        {"writing", true, "1 MiB written, fsynced in " + fixed(1000 * seconds, 1) + " ms, renamed"});
    const bool locks = files.open_or_create(second).lock() == File::Lock::taken;
    checks.push_back(
        {"locks", locks, locks ? "flock works" : "no flock here: two trainers would not see each other"});
  } catch (const Error& error) {
    checks.push_back({"writing", false, std::string(error.what()) + " (" + error.place + ")"});
  }
  std::error_code ignored;
  for (const std::string& path : {first, second, place.string()}) fs::remove(path, ignored);
  return checks;
}

}  // namespace quern::cli
