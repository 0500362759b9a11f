// The table of quern bench --profile: one training step by operation.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "quern/base/parallel.hpp"
#include "quern/base/profile.hpp"
#include "quern/watch/canvas.hpp"
#include "quern/watch/format.hpp"
#include "roofline.hpp"

namespace quern::cli {

namespace {

/// All calls of one operation in one phase.
struct Row {
  Phase phase;
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  Cost cost;

  /// The least seconds that the machine's rates allow.
  double bound(const MachineRates& rates, Type compute) const {
    return std::max(cost.flops / (rates.of(compute) * 1e9), cost.bytes / (rates.gigabytes_per_second * 1e9));
  }
};

struct StepProfile {
  double seconds = 0;
  std::vector<Row> rows;

  double of(Phase phase) const {
    double sum = 0;
    for (const Row& row : rows) sum += row.phase == phase ? row.seconds : 0;
    return sum;
  }
  double rest() const {
    double sum = seconds;
    for (const Row& row : rows) sum -= row.seconds;
    return sum;
  }
};

constexpr Phase phases[] = {Phase::data, Phase::forward, Phase::backward, Phase::optimizer};

StepProfile by_operation(const Profile& profile) {
  StepProfile step;
  for (const Slice& slice : profile.slices()) {
    if (slice.phase == Phase::thread) continue;
    if (slice.phase == Phase::step) {
      step.seconds = slice.seconds;
      continue;
    }
    auto row = std::find_if(step.rows.begin(), step.rows.end(),
                            [&](const Row& r) { return r.phase == slice.phase && r.name == slice.name; });
    if (row == step.rows.end()) row = step.rows.insert(row, {slice.phase, std::string(slice.name), 0, 0, {}});
    row->calls++;
    row->seconds += slice.seconds;
    row->cost = row->cost + slice.cost;
  }
  std::stable_sort(step.rows.begin(), step.rows.end(),
                   [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  return step;
}

StepProfile shortest_step(const Config& config) {
  RandomTraining training(config);
  for (int i = 0; i < 2; ++i) training.step();
  StepProfile best;
  for (int i = 0; i < 3; ++i) {
    Profile profile;
    profile.start();
    training.step();
    profile.stop();
    StepProfile step = by_operation(profile);
    if (i == 0 || step.seconds < best.seconds) best = std::move(step);
  }
  return best;
}

/// A bar of `share` of `columns`, in eighths of a column where the terminal has them.
std::string bar(double share, int columns, bool utf8) {
  const double length = std::clamp(share, 0.0, 1.0) * columns;
  if (!utf8) return std::string(static_cast<std::size_t>(length + 0.5), '#');
  static constexpr const char* part[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(length * 8 + 0.5);
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + part[eighths % 8];
}

std::string rate(double amount, double seconds) {
  return amount > 0 ? fixed(amount * 1e-9 / seconds, 1) : "";
}

std::string line_of(const std::string& name, std::int64_t calls, double seconds, double share) {
  char text[100];
  const std::string times = calls > 0 ? std::to_string(calls) : "";
  std::snprintf(text, sizeof text, "%-21s %5s %9.2f %5.1f", name.c_str(), times.c_str(), seconds * 1e3,
                share * 100);
  return text;
}

/// The operations that have products, on the roofline.
std::string roofline_of(const StepProfile& step, const MachineRates& rates, const Terminal& terminal) {
  std::vector<RooflinePoint> points;
  for (const Row& row : step.rows)
    if (row.cost.flops > 0)
      points.push_back({row.name + " " + std::string(name(row.phase)), row.cost.flops * 1e-9 / row.seconds,
                        row.cost.flops / row.cost.bytes});
  return roofline(points, {{"f32", rates.gflops}, {"bf16", rates.bf16_gflops}}, rates.gigabytes_per_second,
                  terminal);
}

std::string text_of(const StepProfile& step, const Config& config, const MachineRates& rates,
                    const Terminal& terminal) {
  const Type compute = type_of(config.run.precision);
  std::string text = fit(harmless(config.run.name), 40, !terminal.utf8) + " in " +
                     std::string(enum_name(config.run.precision)) + ", " + std::to_string(thread_count()) +
                     " threads: a step of " + fixed(step.seconds * 1e3, 1) + " ms\n" +
                     "this machine: " + fixed(rates.of(compute), 0) + " GFLOP/s in products, " +
                     fixed(rates.gigabytes_per_second, 1) + " GB/s; roof: the time these allow\n\n" +
                     "operation             calls        ms     % GFLOP/s   GB/s  roof  of the step\n";
  for (const Phase phase : phases) {
    text += line_of(std::string(name(phase)), 0, step.of(phase), step.of(phase) / step.seconds) + "\n";
    for (const Row& row : step.rows) {
      if (row.phase != phase) continue;
      const double share = row.seconds / step.seconds, bound = row.bound(rates, compute);
      const std::string roof = bound > 0 ? fixed(100 * bound / row.seconds, 0) + "%" : "";
      char figures[60];
      std::snprintf(figures, sizeof figures, " %7s %6s %5s  ", rate(row.cost.flops, row.seconds).c_str(),
                    rate(row.cost.bytes, row.seconds).c_str(), roof.c_str());
      text += line_of("  " + row.name, row.calls, row.seconds, share) + figures +
              coloured(bar(share, 13, terminal.utf8), "36", terminal.colour) + "\n";
    }
  }
  return text + line_of("in no operation", 0, step.rest(), step.rest() / step.seconds) + "\n\n" +
         roofline_of(step, rates, terminal);
}

nlohmann::ordered_json json_of(const StepProfile& step, const Config& config, const MachineRates& rates) {
  const Type compute = type_of(config.run.precision);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Phase phase : phases)
    for (const Row& row : step.rows)
      if (row.phase == phase)
        rows.push_back({{"phase", name(phase)},
                        {"operation", row.name},
                        {"calls", row.calls},
                        {"ms", row.seconds * 1e3},
                        {"share", row.seconds / step.seconds},
                        {"flops", row.cost.flops},
                        {"bytes", row.cost.bytes},
                        {"bound_ms", row.bound(rates, compute) * 1e3},
                        {"of_roof", row.bound(rates, compute) / row.seconds}});
  return {{"work", config.run.name},
          {"precision", enum_name(config.run.precision)},
          {"threads", thread_count()},
          {"ms", step.seconds * 1e3},
          {"gflops", rates.gflops},
          {"bf16_gflops", rates.bf16_gflops},
          {"gigabytes_per_second", rates.gigabytes_per_second},
          {"data_ms", step.of(Phase::data) * 1e3},
          {"forward_ms", step.of(Phase::forward) * 1e3},
          {"backward_ms", step.of(Phase::backward) * 1e3},
          {"optimizer_ms", step.of(Phase::optimizer) * 1e3},
          {"rest_ms", step.rest() * 1e3},
          {"operations", rows}};
}

}  // namespace

std::string step_profile(const Config& config, const Terminal& terminal, bool json) {
  const MachineRates rates = machine_rates();
  const StepProfile step = shortest_step(config);
  if (!json) return text_of(step, config, rates, terminal);
  return json_of(step, config, rates).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace quern::cli
