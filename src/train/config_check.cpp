// The cross-field checks of a config.
#include "config_check.hpp"

#include <algorithm>
#include <cctype>

#include "quern/base/suggest.hpp"
#include "quern/data/dataset.hpp"
#include "quern/kernels/attention.hpp"
#include "quern/train/objective.hpp"

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
    const bool heads = m.architecture != Architecture::rnn ||
                       (is_pair(data.task) && m.score != ScoreKind::additive);  // Luong's
    if (heads && m.d_model % m.n_heads != 0)
      add({"model.d_model", "model.n_heads"},
          std::to_string(m.d_model) + " is not divisible by model.n_heads (" + std::to_string(m.n_heads) +
              ")",
          "each head takes d_model / n_heads of the width");
    const bool tiles = m.attention != AttentionKind::linear || m.qk_norm;
    if (heads && tiles && m.d_model / m.n_heads > max_head_width)
      add({"model.n_heads", "model.d_model"},
          std::to_string(m.n_heads) + " makes heads of " + std::to_string(m.d_model / m.n_heads) +
              " numbers with model.d_model " + std::to_string(m.d_model) + ", and a head may have " +
              std::to_string(max_head_width),
          "at least " + std::to_string((m.d_model + max_head_width - 1) / max_head_width) + " heads");
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
    if (m.score == ScoreKind::additive && m.position == PositionKind::rope &&
        m.architecture != Architecture::rnn)
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

  /// What an architecture is made for, and which data it takes.
  void architecture(const ModelConfig& m, const DataConfig& d) {
    const auto refuse = [&](const char* path, std::string_view value, const std::string& hint) {
      add({path, "model.architecture"},
          in_quotes(value) + " is not defined with model.architecture " +
              in_quotes(enum_name(m.architecture)),
          hint);
    };
    const std::string_view task = enum_name(d.task);
    const bool labelled =
        d.task == TaskKind::classification || d.task == TaskKind::tagging || d.task == TaskKind::regression;
    const bool drawn_label = d.task == TaskKind::majority || d.task == TaskKind::parity;
    const bool images = d.task == TaskKind::images || d.task == TaskKind::shapes;
    if (images != (m.architecture == Architecture::vit))
      refuse("data.task", task,
             images ? "images are read by vit alone" : "vit reads images: data.task images or shapes");
    switch (m.architecture) {
      case Architecture::decoder:
      case Architecture::rnn:
        if (labelled)
          refuse("data.task", task, "it labels what was read as a whole: model.architecture encoder");
        break;
      case Architecture::encoder:
        if (!labelled && !drawn_label && !images && d.task != TaskKind::text && d.task != TaskKind::recall)
          refuse("data.task", task, "an encoder alone writes no answer: decoder, encoder_decoder or rnn");
        break;
      case Architecture::encoder_decoder:
        if (labelled || drawn_label || d.task == TaskKind::text || d.task == TaskKind::recall)
          refuse("data.task", task, "it reads a question and writes an answer: translation, copy, dates, …");
        break;
      case Architecture::vit: break;
    }
    if (has_encoder(m.architecture) && m.position == PositionKind::alibi)
      refuse("model.position", "alibi",
             "its bias is for tokens that came before, and an encoder sees both ways");
    const bool low_rank = m.attention == AttentionKind::low_rank;
    if (low_rank && m.architecture != Architecture::encoder && m.architecture != Architecture::vit)
      refuse("model.attention", "low_rank", "its mixtures hold later tokens too: an encoder's attention");
    if (low_rank && m.position == PositionKind::rope)
      add({"model.position", "model.attention"},
          in_quotes("rope") + " is not defined with model.attention " + in_quotes("low_rank"),
          "a mixture of keys has no position; learned or sinusoidal");
    if (low_rank && m.rank == 0)
      add({"model.rank", "model.attention"}, "low_rank needs a model.rank of at least 1, found 0",
          "the number of mixtures that each token sees");
    if (!low_rank && m.rank != 0)
      no_effect("model.rank", std::to_string(m.rank), "model.attention", enum_name(m.attention), "low_rank");
    if (m.architecture == Architecture::encoder_decoder && m.attention != AttentionKind::full)
      refuse("model.attention", enum_name(m.attention), "full");
    if (d.pack == PackKind::documents &&
        (m.architecture != Architecture::decoder || d.task != TaskKind::text))
      refuse("data.pack", "documents", "packed documents are a decoder's text");
  }

  /// What only the data and the task settle; the configs of runs state it.
  void settled(const Config& config) {
    const ModelConfig& m = config.model;
    const HeadKind head = head_of(config);
    if (m.head != HeadKind::task && m.head != head)
      add({"model.head", "data.task"},
          in_quotes(enum_name(m.head)) + " is not what data.task " + in_quotes(enum_name(config.data.task)) +
              " asks of model.architecture " + in_quotes(enum_name(m.architecture)) + ", which is " +
              in_quotes(enum_name(head)),
          "leave model.head out");
    if (m.reads_source && (m.architecture != Architecture::rnn || !is_pair(config.data.task)))
      no_effect("model.reads_source", "true", "data.task", enum_name(config.data.task),
                "one of questions, for rnn");
    if (!m.image.empty() && m.image.size() != 3)
      add({"model.image"}, "must have 3 entries, found " + std::to_string(m.image.size()),
          "height, width and channels; or leave it out: the data says it");
  }

  /// A recurrent network has few of the Transformer's choices.
  void recurrent(const ModelConfig& m, const DataConfig& d) {
    if (m.architecture != Architecture::rnn) return;
    const bool pair = is_pair(d.task);
    if (pair && m.d_model % 2 != 0)
      add({"model.d_model", "model.architecture"},
          std::to_string(m.d_model) + " is odd, and the encoder of rnn takes half of the width each way");
    if (pair && m.score == ScoreKind::additive && m.cell != Cell::gru)
      add({"model.cell", "model.score"},
          in_quotes(enum_name(m.cell)) + " is not defined with model.score " + in_quotes("additive"),
          "the decoder that asks before its step is a gru; or another model.score");
    if (pair && m.score == ScoreKind::additive && m.n_layers != 1)
      add({"model.n_layers", "model.score"},
          std::to_string(m.n_layers) + " is not defined with model.score " + in_quotes("additive") +
              " and model.architecture " + in_quotes("rnn"),
          "1: its decoder has one layer");
    if (!pair && m.score != ScoreKind::scaled_dot)
      add({"model.score", "data.task"},
          in_quotes(enum_name(m.score)) +
              " has no effect: rnn has attention in a task of questions and answers alone",
          "leave model.score out");
    if (m.attention != AttentionKind::full)
      no_effect("model.attention", in_quotes(enum_name(m.attention)), "model.architecture", "rnn", "decoder");
  }

  void watch(const Config& config) {
    const std::int64_t interval = config.watch.sample_interval;
    if (interval > 0 && framing_of(config) != Framing::stream)
      no_effect("watch.sample_interval", std::to_string(interval), "model.architecture",
                enum_name(config.model.architecture), "decoder");
    if (config.watch.histogram_interval > 0 && !config.watch.tensorboard)
      no_effect("watch.histogram_interval", std::to_string(config.watch.histogram_interval),
                "watch.tensorboard", "false", "true");
  }

  /// What only some tasks have.
  void task(const DataConfig& d, const RunConfig& run) {
    const bool drawn = problem_kind(d.task).has_value() || d.task == TaskKind::shapes;
    const auto only = [&](const char* path, bool stated, const std::string& value,
                          const std::string& wanted) {
      if (stated) no_effect(path, value, "data.task", enum_name(d.task), wanted);
    };
    if (!drawn && d.task != TaskKind::text && d.text.empty() && d.source.empty())
      add({"data.text", "data.task"}, in_quotes(enum_name(d.task)) + " needs files to learn from, found none",
          d.task == TaskKind::images ? "a folder, or IDX files of images and of labels"
                                     : "JSON lines or a table, data.text=FILE");
    if (d.task == TaskKind::images && d.text.size() > 2)
      add({"data.text"},
          "images are one folder, or two IDX files, found " + std::to_string(d.text.size()) + " paths");
    if (drawn && !d.text.empty()) only("data.text", true, in_quotes(d.text[0]), "one that reads a text");
    only("data.source", !d.source.empty() && d.task != TaskKind::translation, "a path", "translation");
    only("data.target", !d.target.empty() && d.task != TaskKind::translation, "a path", "translation");
    if (d.source.size() != d.target.size())
      add({"data.source", "data.target"},
          std::to_string(d.source.size()) + " files to translate and " + std::to_string(d.target.size()) +
              " translations",
          "as many of one as of the other, in the same order");
    if (drawn && d.val_fraction == 0)
      add({"data.val_fraction", "data.task"},
          "must be above 0 with data.task " + in_quotes(enum_name(d.task)),
          "the share of its questions that training never sees");
    if (run.batch_tokens > 0 && (d.task == TaskKind::text || (drawn && d.task != TaskKind::modular)))
      add({"run.batch_tokens", "data.task"},
          std::to_string(run.batch_tokens) + " has no effect with data.task " + in_quotes(enum_name(d.task)),
          "it sorts a list of examples by length; use run.batch_size");
  }

  void data(const DataConfig& d) {
    for (std::size_t i = 0; i < d.text.size(); ++i)
      if (d.text[i].empty()) add({"data.text"}, "entry " + std::to_string(i) + " is an empty path");
    if (d.tokenizer.empty())
      add({"data.tokenizer"}, "must not be empty", "byte, char, or a tokenizer file's path");
  }

  void schedule(const ScheduleConfig& s, const OptimConfig& optim, const RunConfig& run) {
    const bool own_end = s.decay_steps > 0;
    const std::int64_t end = own_end ? s.decay_steps : run.max_steps;
    if (decays(s.kind) && s.warmup_steps >= end && s.warmup_steps > 0 && end > 0) {
      const std::string end_path = own_end ? "schedule.decay_steps" : "run.max_steps";
      add({"schedule.warmup_steps", end_path},
          std::to_string(s.warmup_steps) + " must be below " + end_path + " (" + std::to_string(end) + ")",
          "a smaller schedule.warmup_steps, or more steps" +
              std::string(
                  own_end ? "" : "; schedule.decay_steps, where stated, takes the place of run.max_steps"));
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
  checks.architecture(config.model, config.data);
  checks.settled(config);
  checks.recurrent(config.model, config.data);
  checks.task(config.data, config.run);
  checks.watch(config);
  checks.data(config.data);
  checks.schedule(config.schedule, config.optim, config.run);
  checks.optim(config.optim);
  checks.run(config.run);
  return std::move(checks.found);
}

}  // namespace quern
