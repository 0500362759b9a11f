// What training and evaluation hand to a model.
#pragma once

#include <cstdint>

namespace quern {

/// The target of a position that counts nowhere.
constexpr std::int32_t kIgnore = -1;

/// Rows of one micro-batch. The pointers belong to whoever made it and hold until its next batch.
struct Batch {
  std::int64_t rows = 0;                  // B
  std::int64_t length = 0;                // T
  const std::int32_t* inputs = nullptr;   // (B,T)
  const std::int32_t* targets = nullptr;  // (B,T), of labels (B); kIgnore where a position does not count
  const std::int32_t* starts = nullptr;   // (B,T): where in its row a token's document begins; null: at 0
  const std::int32_t* lengths = nullptr;  // (B): inputs at or beyond are padding; null: none are
  const std::int32_t* source = nullptr;   // (B,S): what an encoder reads for a decoder; null: there is none
  std::int64_t source_length = 0;         // S
  const std::int32_t* source_lengths = nullptr;  // (B), as lengths
  const float* values = nullptr;                 // (B): numbers to tell; null: classes are
  const float* patches = nullptr;                // (B,T,P): of images, whose inputs then count 0 … B*T - 1
  std::int64_t target_tokens = 0;                // targets, or values, that count
  std::int64_t target_bytes = 0;  // bytes of text that these targets stand for; only EvalWindows counts them,
                                  // and not of hidden tokens
  std::int64_t first_row = 0;     // the first row's index among all rows of its step or evaluation
};

}  // namespace quern
