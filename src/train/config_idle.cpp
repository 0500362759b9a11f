// Settings that another setting leaves without effect.
#include <algorithm>
#include <vector>

#include "config_check.hpp"
#include "quern/base/suggest.hpp"

namespace quern {

std::vector<std::string> idle_settings(const Config& config) {
  const auto is = [](const char* path, auto value) {
    return path + std::string(" ") + in_quotes(enum_name(value));
  };
  const std::string optimizer = is("optim.optimizer", config.optim.optimizer);
  const std::string kind = is("schedule.kind", config.schedule.kind);
  const std::string position = is("model.position", config.model.position);
  const std::string architecture = is("model.architecture", config.model.architecture);
  const bool muon = config.optim.optimizer == OptimizerKind::muon;
  const bool falls = decays(config.schedule.kind);
  const bool samples = config.watch.sample_interval > 0;
  const struct {
    const char* path;
    bool used;
    std::string with;
  } rules[] = {
      {"model.rope_theta", config.model.position == PositionKind::rope, position},
      {"model.cell", config.model.architecture == Architecture::rnn, architecture},
      {"model.patch_size", config.model.architecture == Architecture::vit, architecture},
      {"optim.muon_learning_rate", muon, optimizer},
      {"optim.muon_momentum", muon, optimizer},
      {"schedule.decay_steps", falls, kind},
      {"schedule.min_learning_rate", falls, kind},
      {"schedule.power", config.schedule.kind == ScheduleKind::polynomial, kind},
      {"watch.sample_prompt", samples, "watch.sample_interval 0"},
      {"watch.sample_tokens", samples, "watch.sample_interval 0"},
  };
  std::vector<std::string> idle;
  for (const Difference& stated : differences(Config(), config)) {
    const auto rule = std::find_if(std::begin(rules), std::end(rules),
                                   [&](const auto& each) { return stated.path == each.path; });
    if (rule != std::end(rules) && !rule->used)
      idle.push_back(stated.path + " (" + stated.after + ") has no effect with " + rule->with);
  }
  return idle;
}

}  // namespace quern
