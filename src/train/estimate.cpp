#include "quern/train/estimate.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "quern/base/parallel.hpp"
#include "quern/base/process.hpp"
#include "quern/kernels/gemm.hpp"
#include "quern/nn/model.hpp"
#include "quern/train/objective.hpp"
#include "quern/train/optimizer.hpp"
#include "quern/watch/format.hpp"

namespace quern {
namespace {

/// oneDNN's machine code, descriptors and scratchpads, measured as what a run takes beyond the other parts.
constexpr std::int64_t library_bytes = std::int64_t{10} << 20;

/// "decoder.blocks.3" of whatever lies in it, else the first two names of a path: "decoder.embedding",
/// "head".
std::string layer_of(std::string_view path) {
  std::size_t end = path.find('.');
  if (end != std::string_view::npos) end = path.find('.', end + 1);
  if (end != std::string_view::npos && end + 1 < path.size() && path[end + 1] >= '0' && path[end + 1] <= '9')
    end = path.find('.', end + 1);
  return std::string(path.substr(0, end));
}

void add(std::vector<Share>& shares, const std::string& name, std::int64_t amount) {
  const auto found =
      std::find_if(shares.begin(), shares.end(), [&](const Share& s) { return s.name == name; });
  if (found != shares.end()) {
    found->amount += amount;
  } else {
    shares.push_back({name, amount});
  }
}

/// A field that says how large a batch is.
struct BatchSetting {
  const char* name;
  std::int64_t RunConfig::*field;
};
constexpr BatchSetting by_rows = {"run.batch_size", &RunConfig::batch_size},
                       by_tokens = {"run.batch_tokens", &RunConfig::batch_tokens};

/// Rows of a micro-batch of training: run.batch_size, or as many of full length as run.batch_tokens holds,
/// the last one in part.
std::int64_t training_rows(const Config& config) {
  if (config.run.batch_tokens == 0) return config.run.batch_size;
  const std::int64_t tokens = config.model.context_length * (framing_of(config) == Framing::memory ? 2 : 1);
  return (config.run.batch_tokens + tokens - 1) / tokens;
}

/// Rows of the largest batch; evaluations have run.batch_size whatever training has.
std::int64_t most_rows(const Config& config, std::int64_t evaluation_windows) {
  return std::max(training_rows(config), std::min(config.run.batch_size, evaluation_windows));
}

/// Whether int64 counts the run, with room for sums over layers.
bool is_countable(const Config& config, std::int64_t evaluation_windows) {
  const ModelConfig& m = config.model;
  const double rows =
      static_cast<double>(most_rows(config, evaluation_windows)) * static_cast<double>(m.context_length);
  const double width = static_cast<double>(std::max({3 * m.d_model, hidden_width(m), m.n_heads}));
  return rows * width < 0x1p50;
}

/// A model without memory, and the workspace of its passes.
class Planner {
 public:
  explicit Planner(const Config& config)
      : config_(config),
        model_(config.model, true, type_of(config.run.precision), Backing::none),
        workspace_(Backing::none) {}

  const ParamStore& parameters() const { return model_.parameters(); }

  /// One micro-batch, forward and backward.
  void train(std::vector<PlannedCall>& calls, double times, MemoryEstimate& memory) {
    pass(Mode::train, training_rows(config_), calls, times, [&](Tape& tape) {
      tape.for_each_held([&](std::string_view module, std::int64_t bytes) {
        add(memory.activations_by_layer, layer_of(module), bytes);
        memory.activations += bytes;
      });
      std::reverse(memory.activations_by_layer.begin(), memory.activations_by_layer.end());
      add(memory.activations_by_layer, "statistics", workspace_.planned_statistics);
      memory.activations += workspace_.planned_statistics;
      tape.backward();
    });
  }

  /// One batch of an evaluation.
  void evaluate(std::int64_t rows, std::vector<PlannedCall>& calls, double times) {
    if (rows > 0 && times > 0) pass(Mode::infer, rows, calls, times, [](Tape&) {});
  }

  /// What an update borrows from the pool.
  void borrow(std::int64_t bytes) {
    if (bytes > 0) workspace_.pool.release(workspace_.pool.allocate(static_cast<std::size_t>(bytes)));
  }

  /// What all passes together take, and what batches of other shapes leave beside it.
  std::int64_t bytes_held() const {
    const auto pool = static_cast<std::int64_t>(workspace_.pool.bytes_held());
    return pool + (config_.run.batch_tokens > 0 ? pool / Pool::spare_part : 0) +
           workspace_.planned_statistics_peak;
  }
  std::int64_t bytes_reserved() const {
    return static_cast<std::int64_t>(workspace_.pool.bytes_reserved() - workspace_.pool.bytes_held());
  }

 private:
  void pass(Mode mode, std::int64_t rows, std::vector<PlannedCall>& calls, double times,
            const std::function<void(Tape&)>& after) {
    Profile profile;
    profile.start();
    model_.parameters().begin_step();
    {
      Tape tape(workspace_, mode, {}, config_.run.recompute);
      const Tokens tokens = {nullptr, rows, config_.model.context_length};
      model_.loss(tape, {tokens, tokens}, Targets(), 1, static_cast<float>(config_.optim.label_smoothing));
      after(tape);
    }
    profile.stop();
    for (const Slice& slice : profile.slices())
      calls.push_back({slice.phase, std::string(slice.name), slice.cost, times});
  }

  const Config& config_;
  Model model_;
  Workspace workspace_;
};

/// The copies in f32 that a product of bf16 makes where there is none: of the largest weights, of its other
/// operand and of its result.
std::int64_t conversion_bytes(const ParamStore& parameters, const Config& config, std::int64_t rows) {
  if (config.run.precision != Precision::bf16 || gemm_has_bf16()) return 0;
  std::int64_t weights = 0;
  for (const Parameter& p : parameters.all()) weights = std::max(weights, 4 * p.size());
  const std::int64_t widest = std::max(hidden_width(config.model), 3 * config.model.d_model);
  return weights + 2 * 4 * rows * config.model.context_length * widest;
}

/// The keys and values of a sample of one context's length, while training's memory is held.
std::int64_t sample_bytes(const Config& config) {
  if (config.watch.sample_interval == 0) return 0;
  const ModelConfig& m = config.model;
  return m.n_layers * 2 * m.context_length * key_heads(m) * head_width(m) *
         size_of(type_of(config.run.precision));
}

/// Evaluations of a run: before the first step, every eval_interval steps, and after the last.
double evaluation_count(const RunConfig& run) {
  const std::int64_t every = run.eval_interval > 0 ? run.max_steps / run.eval_interval : 0;
  const bool last = run.max_steps > 0 && (run.eval_interval == 0 || run.max_steps % run.eval_interval != 0);
  return 1 + static_cast<double>(every) + (last ? 1 : 0);
}

}  // namespace

double RunEstimate::flops_per_token() const {
  double flops = 0;
  for (const PlannedCall& call : step) flops += call.times * call.cost.flops;
  return flops / static_cast<double>(tokens_per_step);
}

RunEstimate estimate(const Config& config, std::int64_t evaluation_windows) {
  const std::int64_t largest = most_rows(config, evaluation_windows);
  if (!is_countable(config, evaluation_windows)) {
    const bool tokens = config.run.batch_tokens > 0 && largest == training_rows(config);
    throw Error(ErrorKind::memory,
                "a micro-batch of " + grouped(largest) + " sequences of " +
                    grouped(config.model.context_length) + " tokens is beyond any machine",
                std::string("lower ") + (tokens ? by_tokens : by_rows).name + " or model.context_length");
  }
  const RunConfig& run = config.run;
  RunEstimate result;
  MemoryEstimate& memory = result.memory;
  memory.program = resident_bytes();
  Planner planner(config);
  const std::int64_t rows = std::min(run.batch_size, evaluation_windows);
  const std::int64_t whole = rows > 0 ? evaluation_windows / rows : 0;
  planner.evaluate(rows, result.evaluation, static_cast<double>(whole));  // in the order of a run
  planner.evaluate(evaluation_windows - whole * rows, result.evaluation, 1);
  planner.train(result.step, static_cast<double>(run.grad_accumulation), memory);

  const ParamStore& store = planner.parameters();
  result.parameters = store.parameter_count();
  for (const Parameter& p : store.all())
    add(result.parameters_by_part, layer_of(std::string_view(p.name).substr(0, p.name.rfind('.'))), p.size());
  result.tokens_per_step = training_rows(config) * run.grad_accumulation * config.model.context_length;
  result.steps = run.max_steps;
  result.evaluations = evaluation_windows > 0 ? evaluation_count(run) : 0;
  const OptimizerCost optimizer = optimizer_cost(store, config.optim);
  result.step.push_back({Phase::optimizer, "gradient_norm", optimizer.norm});
  result.step.push_back({Phase::optimizer, "adamw", optimizer.adamw});
  if (optimizer.muon.flops > 0) result.step.push_back({Phase::optimizer, "muon", optimizer.muon});

  planner.borrow(optimizer.scratch);
  const std::int64_t slab = 4 * store.slab_size();
  memory.weights = slab + (store.compute() == Type::bf16 ? slab / 2 : 0);
  memory.gradients = slab;
  memory.moments = 2 * slab;
  memory.workspace = planner.bytes_held() - memory.activations + conversion_bytes(store, config, largest) +
                     sample_bytes(config);
  memory.library = library_bytes;
  memory.reserved = planner.bytes_reserved();
  return result;
}

namespace {

/// The address space that threads reserve for their stacks.
std::int64_t stacks() {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return (thread_count() - 1) * (known ? static_cast<std::int64_t>(limit.rlim_cur) : std::int64_t{8} << 20);
}

/// Reserved and not used by malloc, and a margin for files, the console and the report. With 64 MiB one of
/// some dozens of starts at the lowest limit that let them begin died, since a library had no address left.
constexpr std::int64_t margin_bytes = std::int64_t{96} << 20;

/// The address space left for a run's own memory.
std::int64_t space_left(const MemoryEstimate& memory) {
  return address_space_left() - stacks() - margin_bytes - memory.reserved;
}

/// Within this share of what there is.
bool fits(const MemoryEstimate& memory, double share = 1) {
  const auto most = [share](std::int64_t bytes) {
    return static_cast<std::int64_t>(share * static_cast<double>(bytes));
  };
  return memory.to_come() <= most(available_memory()) && memory.to_come() <= most(space_left(memory));
}

/// The largest value below that of `config` of the field that fits, also when a little less memory is there
/// then; 0 when not even 1 does.
std::int64_t largest_batch(Config config, std::int64_t evaluation_windows, std::int64_t RunConfig::*field) {
  std::int64_t& size = config.run.*field;
  std::int64_t good = 0, bad = size;
  while (bad - good > 1) {
    size = good + (bad - good) / 2;
    const bool fit =
        is_countable(config, evaluation_windows) && fits(estimate(config, evaluation_windows).memory, 0.95);
    (fit ? good : bad) = size;
  }
  return good;
}

/// The setting to lower: that of training, unless its batches fit and those of evaluations do not.
BatchSetting too_large(Config config, std::int64_t evaluation_windows) {
  if (config.run.batch_tokens == 0) return by_rows;
  config.run.batch_size = 1;
  return fits(estimate(config, evaluation_windows).memory) ? by_rows : by_tokens;
}

}  // namespace

void require_memory(const Config& config, std::int64_t evaluation_windows) {
  const MemoryEstimate memory = estimate(config, evaluation_windows).memory;
  if (fits(memory)) return;
  const std::int64_t space = space_left(memory);
  const std::int64_t left = std::max<std::int64_t>(0, std::min(available_memory(), space));
  const auto [setting, field] = too_large(config, evaluation_windows);
  const std::int64_t batch = largest_batch(config, evaluation_windows, field);
  const bool trains = config.run.batch_tokens == 0 || field != by_rows.field;  // else evaluations alone
  const char* made_up = trains ? "a larger run.grad_accumulation makes up for it; " : "";
  throw Error(ErrorKind::memory,
              "this run needs " + binary_size(memory.to_come()) + " more memory (" +
                  binary_size(memory.weights + memory.gradients + memory.moments) +
                  " for weights, gradients and moments, " +
                  binary_size(memory.activations + memory.workspace) + " for a micro-batch of " +
                  grouped(most_rows(config, evaluation_windows)) + "), and " + binary_size(left) +
                  (space < available_memory() ? " are left of the address space" : " are available"),
              batch > 0 ? std::string(setting) + " " + std::to_string(batch) + " fits; " + made_up +
                              "quern estimate tells the parts"
                        : std::string("not even ") + setting +
                              " 1 fits: a smaller model.d_model, model.n_layers or "
                              "model.context_length does; quern estimate tells the parts");
}

}  // namespace quern
