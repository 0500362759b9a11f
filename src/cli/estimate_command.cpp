// quern estimate
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "command.hpp"
#include "quern/base/process.hpp"
#include "quern/train/estimate.hpp"
#include "quern/train/evaluate.hpp"
#include "quern/train/session.hpp"
#include "quern/watch/format.hpp"
#include "quern/watch/terminal.hpp"

namespace quern::cli {

namespace {

struct EstimateOptions : ConfigOptions {
  bool json = false, measure = false;
};

/// The share of those rates that the operations of a step reach, one after another: measured as 0.70 to 0.91
/// over toy, shakespeare-char-cpu, B, C64 and C1024 (tools/LOG.md).
constexpr double reached = 0.86;

/// Seconds of one call: its arithmetic at the rate of its kind, its traffic at that of memory or, when it is
/// small, of the caches, and what any call costs.
double seconds_of(const PlannedCall& call, const MachineRates& rates, Type compute) {
  const double bandwidth =
      call.cost.bytes < 8e6 ? rates.cache_gigabytes_per_second : rates.gigabytes_per_second;
  double gflops = rates.of(compute);
  if (call.name == "attention")
    gflops = call.phase == Phase::forward ? rates.attention_gflops : rates.attention_backward_gflops;
  const double traffic = call.name == "attention" ? 0 : call.cost.bytes * 1e-9 / bandwidth;
  return (call.cost.flops * 1e-9 / gflops + traffic) / reached + 1e-6 * rates.call_microseconds;
}

struct Seconds {
  double forward = 0, backward = 0, optimizer = 0;  // of a step
  double evaluation = 0;                            // of one
  double evaluations = 0, run = 0;

  double step() const { return forward + backward + optimizer; }
};

Seconds seconds_of(const RunEstimate& estimate, const MachineRates& rates, Type compute) {
  Seconds seconds;
  for (const PlannedCall& call : estimate.step)
    (call.phase == Phase::forward    ? seconds.forward
     : call.phase == Phase::backward ? seconds.backward
                                     : seconds.optimizer) += call.times * seconds_of(call, rates, compute);
  for (const PlannedCall& call : estimate.evaluation)
    seconds.evaluation += call.times * seconds_of(call, rates, compute);
  seconds.evaluations = estimate.evaluations * seconds.evaluation;
  seconds.run = seconds.step() * static_cast<double>(estimate.steps) + seconds.evaluations;
  return seconds;
}

std::string line(const std::string& name, const std::string& value, const std::string& note = "") {
  char text[160];
  std::snprintf(text, sizeof text, "  %-28s %10s%s%s\n", name.c_str(), value.c_str(),
                note.empty() ? "" : "  ", note.c_str());
  return text;
}

/// Layers that are alike are one line: "decoder.blocks.0 … 11".
std::string lines_of(const std::vector<Share>& shares, const std::string& indent,
                     std::string (*text_of)(std::int64_t)) {
  std::string text;
  for (std::size_t i = 0; i < shares.size();) {
    const std::string stem = shares[i].name.substr(0, shares[i].name.rfind('.') + 1);
    std::size_t next = i + 1;
    const auto numbered = [&](const Share& s) {
      return s.name.size() > stem.size() && s.name.starts_with(stem) && std::isdigit(s.name[stem.size()]);
    };
    while (next < shares.size() && shares[next].amount == shares[i].amount && numbered(shares[i]) &&
           numbered(shares[next]))
      ++next;
    const std::string last = shares[next - 1].name.substr(stem.size());
    text += line(indent + shares[i].name + (next > i + 1 ? " to " + last : ""), text_of(shares[i].amount),
                 next > i + 1 ? "each" : "");
    i = next;
  }
  return text;
}

/// What the training split holds.
std::string split_text(const Dataset& data) {
  if (data.corpus) return compact(static_cast<double>(data.train_size()));
  return data.train_size() > 0 ? grouped(data.train_size()) + " examples" : "examples without end";
}

std::string text_of(const RunPlan& plan, const RunEstimate& e, const Seconds& seconds) {
  const MemoryEstimate& m = e.memory;
  std::string text = "parameters\n" + lines_of(e.parameters_by_part, "", grouped) +
                     line("all", grouped(e.parameters)) + "work\n";
  text += line("a token", compact(e.flops_per_token()), "floating-point operations, forward and backward");
  text += line("a step", grouped(e.tokens_per_step), "tokens");
  text += line("the run", compact(static_cast<double>(e.tokens_per_step) * static_cast<double>(e.steps)),
               "tokens in " + grouped(e.steps) + " steps; the training split has " + split_text(plan.data));
  text += "memory\n" + line("weights", binary_size(m.weights)) + line("gradients", binary_size(m.gradients)) +
          line("moments", binary_size(m.moments)) + line("activations", binary_size(m.activations)) +
          lines_of(m.activations_by_layer, "  ", binary_size) + line("workspace", binary_size(m.workspace)) +
          line("libraries", binary_size(m.library)) + line("program and corpus", binary_size(m.program)) +
          line("all", binary_size(m.total()),
               binary_size(available_memory()) + " available beside what is in use");
  text += "time on this machine, when it has nothing else to do\n";
  text += line("a step", duration(seconds.step()),
               fixed(seconds.forward * 1e3, 1) + " ms forward, " + fixed(seconds.backward * 1e3, 1) +
                   " ms backward, " + fixed(seconds.optimizer * 1e3, 1) + " ms optimizer");
  text += line("an evaluation", duration(seconds.evaluation), "of " + compact(e.evaluations));
  text += line("the run", duration(seconds.run),
               compact(static_cast<double>(e.tokens_per_step) / seconds.step()) + " tok/s");
  return text;
}

nlohmann::ordered_json json_of(const std::vector<Share>& shares) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const Share& share : shares) object[share.name] = share.amount;
  return object;
}

nlohmann::ordered_json json_of(const RunEstimate& e, const Seconds& seconds) {
  const MemoryEstimate& m = e.memory;
  return {{"parameters", e.parameters},
          {"parameters_by_part", json_of(e.parameters_by_part)},
          {"flops_per_token", e.flops_per_token()},
          {"tokens_per_step", e.tokens_per_step},
          {"steps", e.steps},
          {"memory",
           {{"weights", m.weights},
            {"gradients", m.gradients},
            {"moments", m.moments},
            {"activations", m.activations},
            {"activations_by_layer", json_of(m.activations_by_layer)},
            {"workspace", m.workspace},
            {"libraries", m.library},
            {"program", m.program},
            {"total", m.total()},
            {"available", available_memory()}}},
          {"ms", seconds.step() * 1e3},
          {"forward_ms", seconds.forward * 1e3},
          {"backward_ms", seconds.backward * 1e3},
          {"optimizer_ms", seconds.optimizer * 1e3},
          {"evaluation_seconds", seconds.evaluation},
          {"evaluations", e.evaluations},
          {"seconds", seconds.run}};
}

int run(EstimateOptions options) {
  if (options.files.empty()) options.files = {default_config()};  // what quern train alone would train
  const RunPlan plan = plan_run(options.files, options.sets, reading_line());
  const auto batches = evaluation_batches(plan.config, plan.data);
  const RunEstimate found = estimate(plan.config, batches ? batches->rows() : 0);
  const MachineRates rates = known_machine_rates(options.measure);
  const Seconds seconds = seconds_of(found, rates, type_of(plan.config.run.precision));
  write_out(options.json ? json_of(found, seconds).dump() + "\n" : text_of(plan, found, seconds));
  return 0;
}

}  // namespace

void add_estimate(CLI::App& app) {
  const auto options = std::make_shared<EstimateOptions>();
  CLI::App* command = add_command(
      app, "estimate",
      "Tell what a run will take before it starts: parameters, memory, time; without --config the toy model",
      {"quern estimate", "quern estimate --config my.json --set run.batch_size=64",
       "quern estimate --config my.json --json | jq .memory.total"},
      [options] { return run(*options); });
  add_config_options(*command, *options);
  command->add_flag("--measure", options->measure, "Measure this machine again, and keep the new rates");
  command->add_flag("--json", options->json, "Print one JSON object");
}

}  // namespace quern::cli
