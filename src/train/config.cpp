#include "quern/train/config.hpp"

#include <algorithm>
#include <array>

#include "config_check.hpp"
#include "quern/base/suggest.hpp"

namespace quern {

void validate(const Config& config) {
  Config copy = config;
  std::vector<ConfigErrors::Item> items;
  for (const Field& field : fields_of(copy).fields)
    for (const FieldProblem& problem : check(field))
      items.push_back({problem.path + ": " + problem.what, problem.hint, ""});
  if (items.empty())
    for (const CrossProblem& problem : cross_problems(config))
      items.push_back({problem.paths.front() + ": " + problem.what, problem.hint, ""});
  if (!items.empty()) throw ConfigErrors(std::move(items));
}

Config resolved(Config config) {
  config.model.d_ff = hidden_width(config.model);
  config.model.n_kv_heads = key_heads(config.model);
  ScheduleConfig& schedule = config.schedule;
  if (schedule.decay_steps == 0) schedule.decay_steps = config.run.max_steps;
  if (schedule.kind == ScheduleKind::wsd && schedule.cooldown_steps == 0)
    schedule.cooldown_steps =
        std::min((schedule.decay_steps + 4) / 5,
                 std::max<std::int64_t>(0, schedule.decay_steps - schedule.warmup_steps));
  return config;
}

std::int64_t checked_vocab_size(const ModelConfig& model, std::int64_t tokenizer_size,
                                const Origins* origins) {
  if (model.vocab_size == 0) return tokenizer_size;
  if (model.vocab_size >= tokenizer_size) return model.vocab_size;
  const std::string path = "model.vocab_size", size = std::to_string(model.vocab_size);
  std::string place = origins ? origins->at(path) : "";
  if (place == "--set") place += " " + path + "=" + size;
  throw ConfigErrors(
      {{path + ": " + size + " is below the tokenizer's " + std::to_string(tokenizer_size) + " tokens",
        "leave it out for the tokenizer's number", place}});
}

std::string to_json(const Config& config) {
  for (const std::vector<std::string>* paths : {&config.data.text, &config.data.source, &config.data.target})
    for (const std::string& path : *paths)
      if (first_non_utf8(path) < path.size())
        throw Error(ErrorKind::config, "the path is not UTF-8, which a run's config has to be",
                    "rename the folder or the file", path);
  Config copy = config;
  std::string text = to_json(fields_of(copy));
  if (text.size() > max_config_bytes)
    throw Error(ErrorKind::config,
                "the run's config would have " + std::to_string(text.size()) + " bytes, and one of " +
                    std::to_string(max_config_bytes) + " can be read",
                "fewer files in data.text, or fewer and shorter data.labels");
  return text;
}

std::string given_json(const Config& config, const Origins& origins) {
  Config copy = config;
  FieldList list = fields_of(copy);
  std::erase_if(list.fields, [&](const Field& field) { return origins.at(field.path) == "default"; });
  return to_json(list);
}

std::vector<Difference> differences(const Config& before, const Config& after) {
  Config old = before, now = after;
  return differences(fields_of(old), fields_of(now));
}

namespace {

constexpr std::array free_fields = {"run.max_steps", "run.threads", "run.eval_interval",
                                    "run.checkpoint_interval", "run.keep_checkpoints"};

}  // namespace

bool may_change_at_resume(const std::string& path) {
  return path.starts_with("watch.") ||
         std::find(free_fields.begin(), free_fields.end(), path) != free_fields.end();
}

std::string resumable_fields() {
  std::string text;
  for (const char* field : free_fields) text += field + std::string(", ");
  return text + "and what lies in watch";
}

std::vector<Difference> frozen_differences(const Config& run, const Config& wanted) {
  std::vector<Difference> found = differences(run, wanted);
  std::erase_if(found, [](const Difference& difference) { return may_change_at_resume(difference.path); });
  return found;
}

std::string format(const std::vector<Difference>& differences) {
  std::string text;
  for (const Difference& d : differences)
    text += "  " + d.path + ": " + d.before + " in the run, " + d.after + " asked for\n";
  return text;
}

}  // namespace quern
