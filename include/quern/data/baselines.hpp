// How well hidden tokens are told without a model.
#pragma once

#include "quern/data/evaluation.hpp"
#include "quern/data/tokens.hpp"

namespace quern {

/// Shares of the hidden tokens that are told right by
///   unigram   always the most frequent token of the training split
///   bigram    the one that follows most often there on the token that stands before; behind a mask, and
///             behind tokens that are not there, as unigram
struct MaskedBaselines {
  double unigram = 0, bigram = 0;
};

/// Over all targets of `windows`, whose masking hides `vocabulary`, the number that no token has.
MaskedBaselines masked_baselines(TokenView train, EvalWindows& windows, std::int32_t vocabulary);

}  // namespace quern
