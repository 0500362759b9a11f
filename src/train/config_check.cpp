// The cross-field checks of a config.
#include "config_check.hpp"

#include <algorithm>
#include <cctype>

#include "quern/base/suggest.hpp"

namespace quern {

namespace {

/// A run's name becomes part of a directory's.
std::string name_mistake(const std::string& name) {
  if (name.empty()) return "must not be empty";
  if (name.front() == '.' || name.front() == '-')
    return in_quotes(name) + " may not begin with \"" + name[0] + "\"";
  if (name.find('/') != std::string::npos) return in_quotes(name) + " may not hold \"/\"";
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return std::iscntrl(c); }))
    return in_quotes(name) + " may not hold control characters";
  if (name.size() > 100) return "may have at most 100 bytes, found " + std::to_string(name.size());
  return "";
}

class Checks {
 public:
  std::vector<CrossProblem> found;

  void add(std::vector<std::string> paths, const std::string& what, const std::string& hint = {}) {
    found.push_back({std::move(paths), what, hint});
  }

  void model(const ModelConfig& m, const DataConfig& data) {
    if (m.d_model % m.n_heads != 0)
      add({"model.d_model", "model.n_heads"},
          std::to_string(m.d_model) + " is not divisible by model.n_heads (" + std::to_string(m.n_heads) +
              ")",
          "each head takes d_model / n_heads of the width");
    if (m.n_kv_heads != 0 && m.n_heads % m.n_kv_heads != 0)
      add({"model.n_kv_heads", "model.n_heads"},
          std::to_string(m.n_kv_heads) + " does not divide model.n_heads (" + std::to_string(m.n_heads) + ")",
          "each head of keys and values serves n_heads / n_kv_heads heads of queries");
    attention(m);
    const bool slides = m.attention == AttentionKind::sliding_window;
    if (slides && m.window == 0)
      add({"model.window", "model.attention"}, "sliding_window needs a model.window of at least 1, found 0",
          "window W sees the latest W tokens, itself included");
    if (!slides && m.window != 0)
      add({"model.window", "model.attention"},
          std::to_string(m.window) + " has no effect with model.attention " +
              in_quotes(enum_name(m.attention)),
          "set model.attention to sliding_window, or leave model.window out");
    if (!slides && m.global_tokens != 0)
      add({"model.global_tokens", "model.attention"},
          std::to_string(m.global_tokens) + " has no effect with model.attention " +
              in_quotes(enum_name(m.attention)),
          "set model.attention to sliding_window, or leave model.global_tokens out");
    if (m.attention == AttentionKind::linear && data.pack == PackKind::documents)
      add({"model.attention", "data.pack"},
          in_quotes("linear") + " cannot begin again in the middle of a row, as data.pack " +
              in_quotes("documents") + " needs: its running sums know all that came before",
          "another model.attention, or data.pack none");
    if (slides && m.global_tokens != 0 && data.pack == PackKind::documents)
      add({"model.global_tokens", "data.pack"},
          std::to_string(m.global_tokens) + " cannot be seen by all with data.pack " +
              in_quotes("documents") + ", where no document sees another",
          "leave model.global_tokens out, or set data.pack to none");
    if (m.position == PositionKind::sinusoidal && m.d_model % 2 != 0)
      add({"model.d_model", "model.position"},
          std::to_string(m.d_model) + " is odd, and sinusoidal positions pair a sine with a cosine");
    if (m.position == PositionKind::rope && m.d_model % m.n_heads == 0 && m.d_model / m.n_heads % 2 != 0)
      add({"model.d_model", "model.n_heads", "model.position"},
          std::to_string(m.d_model) + " over " + std::to_string(m.n_heads) + " heads makes a head size of " +
              std::to_string(m.d_model / m.n_heads) + ", which is odd, and rope turns pairs of numbers",
          "an even d_model / n_heads");
    if (data.eval_stride > m.context_length)
      add({"data.eval_stride", "model.context_length"},
          std::to_string(data.eval_stride) + " is more than model.context_length (" +
              std::to_string(m.context_length) + "), so tokens would be left out");
  }

  /// The pairs that are not defined, and fields without effect.
  void attention(const ModelConfig& m) {
    const bool linear = m.attention == AttentionKind::linear;
    const auto pair = [&](const char* path, std::string_view value, const char* with, const char* why) {
      add({std::string("model.") + path, std::string("model.") + with},
          in_quotes(value) + " is not defined with model." + with + " " +
              in_quotes(std::string_view(with) == "attention" ? enum_name(m.attention) : enum_name(m.score)),
          why);
    };
    if (linear && m.position == PositionKind::alibi)
      pair("position", "alibi", "attention",
           "alibi adds to the scores before a softmax, and linear attention has neither; rope, learned or "
           "none");
    if (linear && m.score != ScoreKind::scaled_dot)
      pair("score", enum_name(m.score), "attention",
           "linear attention's weights are products of features, not of a score; leave model.score out");
    if (linear && m.attention_dropout != 0)
      add({"model.attention_dropout", "model.attention"},
          Json{m.attention_dropout, {}}.describe() + " is not defined with model.attention \"linear\"",
          "linear attention never makes the weights that would be dropped; use model.dropout");
    if (m.score == ScoreKind::additive && m.position == PositionKind::rope)
      pair("position", "rope", "score",
           "rope turns pairs of numbers so that products see the distance, and additive scores are not "
           "products");
    if (!linear && m.feature_map != FeatureMap::elu)
      no_effect("model.feature_map", in_quotes(enum_name(m.feature_map)), "model.attention",
                enum_name(m.attention), "linear");
    if (m.n_features != 0 && (!linear || m.feature_map != FeatureMap::favor))
      no_effect("model.n_features", std::to_string(m.n_features), "model.feature_map",
                enum_name(m.feature_map), "favor");
  }

  void no_effect(const std::string& path, const std::string& value, const std::string& with,
                 std::string_view has, const std::string& wanted) {
    add({path, with}, value + " has no effect with " + with + " " + in_quotes(has),
        "set " + with + " to " + wanted + ", or leave " + path + " out");
  }

  void data(const DataConfig& d) {
    for (std::size_t i = 0; i < d.text.size(); ++i)
      if (d.text[i].empty()) add({"data.text"}, "entry " + std::to_string(i) + " is an empty path");
    if (d.tokenizer.empty())
      add({"data.tokenizer"}, "must not be empty", "byte, char, or a tokenizer file's path");
  }

  void schedule(const ScheduleConfig& s, const OptimConfig& optim, const RunConfig& run) {
    const bool decays =  // the others have no end to reach
        s.kind != ScheduleKind::constant && s.kind != ScheduleKind::inverse_sqrt;
    const bool own_end = s.decay_steps > 0;
    const std::int64_t end = own_end ? s.decay_steps : run.max_steps;
    if (decays && s.warmup_steps >= end && s.warmup_steps > 0 && end > 0) {
      const std::string end_path = own_end ? "schedule.decay_steps" : "run.max_steps";
      add({"schedule.warmup_steps", end_path},
          std::to_string(s.warmup_steps) + " must be below " + end_path + " (" + std::to_string(end) + ")",
          own_end ? "" : "schedule.decay_steps, where stated, takes the place of run.max_steps");
    }
    if (s.kind == ScheduleKind::wsd && s.cooldown_steps > 0 && s.warmup_steps + s.cooldown_steps > end &&
        end > 0)
      add({"schedule.cooldown_steps", "schedule.warmup_steps",
           own_end ? "schedule.decay_steps" : "run.max_steps"},
          std::to_string(s.cooldown_steps) + " and schedule.warmup_steps (" + std::to_string(s.warmup_steps) +
              ") are more than the " + std::to_string(end) + " steps there are",
          "both, and what lies between, end at schedule.decay_steps, or at run.max_steps where that is 0");
    if (s.kind != ScheduleKind::wsd && s.cooldown_steps > 0)
      add({"schedule.cooldown_steps", "schedule.kind"},
          std::to_string(s.cooldown_steps) + " has no effect without schedule.kind \"wsd\"",
          "set schedule.kind to wsd, or leave schedule.cooldown_steps out");
    if (s.min_learning_rate > optim.learning_rate)
      add({"schedule.min_learning_rate", "optim.learning_rate"},
          Json{s.min_learning_rate, {}}.describe() + " is above optim.learning_rate (" +
              Json{optim.learning_rate, {}}.describe() + ")");
  }

  void optim(const OptimConfig& o) {
    if (o.optimizer == OptimizerKind::muon && o.learning_rate == 0)
      add({"optim.learning_rate", "optim.optimizer"},
          "must be above 0 with muon, whose own rate is scaled as this one is",
          "learning_rate is the rate of embeddings, head, norms and biases");
  }

  void run(const RunConfig& r) {
    if (const std::string mistake = name_mistake(r.name); !mistake.empty()) add({"run.name"}, mistake);
    const std::vector<std::int64_t>& steps = r.profile_steps;
    const std::string form = "the first and the last step to profile, such as [10, 12]; [] for none";
    if (!steps.empty() && steps.size() != 2)
      add({"run.profile_steps"}, "must have 2 entries, found " + std::to_string(steps.size()), form);
    if (steps.size() == 2 && steps[0] > steps[1])
      add({"run.profile_steps"},
          "begins at step " + std::to_string(steps[0]) + ", which is after its end, step " +
              std::to_string(steps[1]),
          form);
    if (steps.size() == 2 && steps[0] <= steps[1] && steps[0] > r.max_steps)
      add({"run.profile_steps", "run.max_steps"}, "begins at step " + std::to_string(steps[0]) +
                                                      ", beyond run.max_steps (" +
                                                      std::to_string(r.max_steps) + ")");
  }
};

}  // namespace

std::vector<CrossProblem> cross_problems(const Config& config) {
  Checks checks;
  checks.model(config.model, config.data);
  checks.data(config.data);
  checks.schedule(config.schedule, config.optim, config.run);
  checks.optim(config.optim);
  checks.run(config.run);
  return std::move(checks.found);
}

}  // namespace quern
