// What a run is to learn: which data a model's parts ask for, which targets count, and what tells success.
#pragma once

#include <optional>

#include "quern/data/dataset.hpp"
#include "quern/data/windows.hpp"
#include "quern/train/config.hpp"

namespace quern {

/// What comes out of the model: what data.task asks for. A config that states another model.head is refused.
HeadKind head_of(const Config& config);

/// Whether a task asks questions that have texts as answers.
bool is_pair(TaskKind task);

/// How rows lie before the model.
Framing framing_of(const Config& config);

/// Whether an encoder tells the hidden tokens of a text.
bool is_masked(const Config& config);

/// Whether an answer counts only as a whole, so that exact matches are a metric.
bool answers_whole(const Config& config);

/// What load_dataset must know.
DataShape data_shape(const Config& config);

/// The masking of a text, whose mask is the token behind the tokenizer's; nothing without one.
std::optional<Masking> masking_of(const Config& config, const Tokenizer& tokenizer);

/// The config with what only the data can settle: model.vocab_size (the tokenizer's, and the mask's),
/// model.n_outputs and data.labels, model.image. Throws Error(config) for a vocabulary or a head that is too
/// small.
Config settled(Config config, const Dataset& data, const Origins* origins = nullptr);

}  // namespace quern
