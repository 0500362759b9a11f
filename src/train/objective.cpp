#include "quern/train/objective.hpp"

#include <string>

#include "quern/base/check.hpp"

namespace quern {

bool is_pair(TaskKind task) {
  if (task == TaskKind::translation) return true;
  const auto kind = problem_kind(task);
  return kind && *kind != ProblemKind::majority && *kind != ProblemKind::parity &&
         *kind != ProblemKind::recall;
}

HeadKind head_of(const Config& config) {
  if (config.model.architecture != Architecture::encoder && config.model.architecture != Architecture::vit)
    return HeadKind::tokens;
  switch (config.data.task) {
    case TaskKind::classification:
    case TaskKind::majority:
    case TaskKind::parity:
    case TaskKind::images:
    case TaskKind::shapes: return HeadKind::label;
    case TaskKind::tagging: return HeadKind::tags;
    case TaskKind::regression: return HeadKind::value;
    default: return HeadKind::tokens;
  }
}

Framing framing_of(const Config& config) {
  switch (config.model.architecture) {
    case Architecture::encoder:
    case Architecture::vit: return Framing::whole;
    case Architecture::encoder_decoder: return Framing::memory;
    case Architecture::rnn: return is_pair(config.data.task) ? Framing::memory : Framing::stream;
    case Architecture::decoder: break;
  }
  return Framing::stream;
}

bool is_masked(const Config& config) {
  return config.data.task == TaskKind::text && config.model.architecture == Architecture::encoder;
}

bool answers_whole(const Config& config) {
  return head_of(config) == HeadKind::tokens && config.data.task != TaskKind::text &&
         config.data.task != TaskKind::recall;
}

DataShape data_shape(const Config& config) {
  return {framing_of(config), config.model.context_length, config.model.patch_size, config.run.seed};
}

std::optional<Masking> masking_of(const Config& config, const Tokenizer& tokenizer) {
  if (!is_masked(config)) return std::nullopt;
  return Masking{tokenizer.vocab_size(), tokenizer.vocab_size(), config.run.seed};
}

Config settled(Config config, const Dataset& data, const Origins* origins) {
  config = resolved(std::move(config));
  ModelConfig& model = config.model;
  model.head = head_of(config);
  model.reads_source = model.architecture == Architecture::rnn && framing_of(config) == Framing::memory;
  model.vocab_size =
      checked_vocab_size(model, data.tokenizer.vocab_size() + (is_masked(config) ? 1 : 0), origins);
  const auto classes = static_cast<std::int64_t>(data.labels.size());
  if (model.n_outputs != 0 && model.n_outputs < classes)
    throw Error(ErrorKind::config,
                "model.n_outputs is " + std::to_string(model.n_outputs) + ", but the data has " +
                    std::to_string(classes) + " labels",
                "at least " + std::to_string(classes) + ", or 0 for as many as the data has");
  if (model.n_outputs == 0) model.n_outputs = classes;
  config.data.labels = data.labels;
  model.image = data.image;
  return config;
}

}  // namespace quern
