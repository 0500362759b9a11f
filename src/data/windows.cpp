#include "quern/data/windows.hpp"

#include <algorithm>
#include <limits>

#include "quern/base/rng.hpp"

namespace quern {
namespace {

constexpr int kFeistelRounds = 6;

RandomStream mask_stream(const Masking& masking, std::uint32_t step) {
  return {masking.seed, site_hash("data.mask"), step};
}

}  // namespace

double mask_draw(const Masking& masking, std::uint32_t step, std::int64_t row, std::int64_t place) {
  const RandomStream stream = mask_stream(masking, step);
  return uniform(stream.at(static_cast<std::uint64_t>(row), static_cast<std::uint32_t>(place))[0]);
}

void BatchBuffer::resize(std::int64_t rows, std::int64_t length) {
  QUERN_CHECK(rows >= 0 && length >= 1, rows, length);
  length_ = length;
  const auto size = static_cast<std::size_t>(rows * length);
  if (inputs_.size() < size) {
    inputs_.resize(size);
    targets_.resize(size);
    starts_.resize(size);
  }
}

void BatchBuffer::fill(std::int64_t row, TokenView tokens, std::int64_t start) {
  tokens.copy(start, length_, inputs_.data() + row * length_);
  tokens.copy(start + 1, length_, targets_.data() + row * length_);
  packed_ = tokens.has_documents();
  if (packed_) tokens.copy_starts(start, length_, starts_.data() + row * length_);
}

void BatchBuffer::mask(std::int64_t row, const Masking& masking, std::uint32_t step, std::int64_t index) {
  const RandomStream stream = mask_stream(masking, step);
  for (std::int64_t t = 0; t < length_; ++t) {
    std::int32_t &input = inputs_[static_cast<std::size_t>(row * length_ + t)],
                 &target = targets_[static_cast<std::size_t>(row * length_ + t)];
    const auto bits = stream.at(static_cast<std::uint64_t>(index), static_cast<std::uint32_t>(t));
    target = input;
    if (uniform(bits[0]) >= masking.share) {
      target = kIgnore;
    } else if (const double fate = uniform(bits[1]); fate < 0.8) {
      input = masking.token;
    } else if (fate < 0.9) {
      input =
          static_cast<std::int32_t>(below(static_cast<std::uint64_t>(masking.vocabulary), bits[2], bits[3]));
    }
  }
}

std::int64_t BatchBuffer::count_targets(std::int64_t rows) const {
  return std::count_if(targets_.begin(), targets_.begin() + rows * length_,
                       [](std::int32_t target) { return target != kIgnore; });
}

void BatchBuffer::ignore(std::int64_t row, std::int64_t count) {
  QUERN_CHECK(count >= 0 && count <= length_, count, length_);
  std::fill_n(targets_.data() + row * length_, count, kIgnore);
}

WindowSampler::WindowSampler(TokenView tokens, std::int64_t context_length, WindowOrder order,
                             std::uint64_t seed, std::int64_t rows_per_step, std::optional<Masking> masking)
    : tokens_(tokens),
      context_length_(context_length),
      order_(order),
      seed_(seed),
      rows_per_step_(rows_per_step),
      masking_(masking) {
  QUERN_CHECK(context_length >= 1 && tokens.size() > context_length, context_length, tokens.size());
  QUERN_CHECK(rows_per_step >= 1, rows_per_step);
  require_countable(rows_per_step);
}

std::int64_t WindowSampler::start(std::int64_t step, std::int64_t row) const {
  constexpr std::uint64_t random_site = site_hash("data.windows.random");
  constexpr std::uint64_t offset_site = site_hash("data.windows.offset");
  require_drawable(step);
  QUERN_CHECK(row >= 0 && row < rows_per_step_, row, rows_per_step_);
  const auto uniform_below = [&](std::int64_t n, std::uint64_t site, std::int64_t when, std::int64_t index) {
    const auto bits =
        RandomStream(seed_, site, static_cast<std::uint32_t>(when)).at(static_cast<std::uint64_t>(index), 0);
    return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(n), bits[0], bits[1]));
  };
  const std::int64_t n = tokens_.size();
  if (order_ == WindowOrder::random) return uniform_below(n - context_length_, random_site, step, row);

  const std::int64_t windows = windows_per_epoch();
  const std::int64_t position = step * rows_per_step_ + row;
  const std::int64_t epoch = position / windows;
  const std::int64_t offset = uniform_below((n - 1) % context_length_ + 1, offset_site, 0, epoch);
  const std::uint64_t window =
      permute(static_cast<std::uint64_t>(position % windows), static_cast<std::uint64_t>(windows), seed_,
              static_cast<std::uint32_t>(epoch));
  return offset + static_cast<std::int64_t>(window) * context_length_;
}

Batch WindowSampler::batch(std::int64_t step, std::int64_t first_row, std::int64_t rows) {
  buffer_.resize(rows, context_length_);
  for (std::int64_t row = 0; row < rows; ++row) {
    buffer_.fill(row, tokens_, start(step, first_row + row));
    if (masking_) buffer_.mask(row, *masking_, static_cast<std::uint32_t>(step), first_row + row);
  }
  Batch batch;
  batch.rows = rows;
  batch.length = context_length_;
  batch.inputs = buffer_.inputs();
  batch.targets = buffer_.targets();
  batch.starts = buffer_.starts();
  batch.target_tokens = masking_ ? buffer_.count_targets(rows) : rows * context_length_;
  batch.first_row = first_row;
  return batch;
}

void require_drawable(std::int64_t step) {
  QUERN_CHECK(step >= 0, step);
  if (step <= std::numeric_limits<std::uint32_t>::max()) return;
  throw Error(ErrorKind::config, "a run has 4294967296 batches, and no one behind them",
              "a smaller run.max_steps");
}

void require_countable(std::int64_t rows_per_step) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (rows_per_step <= most) return;
  throw Error(
      ErrorKind::config,
      "a step of " + std::to_string(rows_per_step) + " sequences, and it may have " + std::to_string(most),
      "a smaller run.batch_size or run.grad_accumulation");
}

std::uint64_t permute(std::uint64_t index, std::uint64_t n, std::uint64_t seed, std::uint32_t key) {
  constexpr std::uint64_t site = site_hash("data.windows.permute");
  QUERN_CHECK(index < n && n <= (std::uint64_t{1} << 62), index, n);
  int half = 1;  // bits of each of the two halves
  while ((std::uint64_t{1} << (2 * half)) < n) ++half;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  const RandomStream stream(seed, site, key);
  do {
    std::uint64_t left = index >> half;
    std::uint64_t right = index & mask;
    for (std::uint32_t round = 0; round < kFeistelRounds; ++round) {
      const std::uint64_t mixed = left ^ (stream.at(right, round)[0] & mask);
      left = right;
      right = mixed;
    }
    index = (left << half) | right;
  } while (index >= n);
  return index;
}

}  // namespace quern
