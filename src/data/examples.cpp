#include "quern/data/examples.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "quern/base/check.hpp"
#include "quern/base/rng.hpp"
#include "quern/data/windows.hpp"

namespace quern {

namespace {

/// How long rows are when the longest has `longest` tokens and the shortest `shortest`.
std::int64_t padded_length(std::int64_t shortest, std::int64_t longest, std::int64_t most) {
  return shortest < longest ? std::min(most, (longest + 7) / 8 * 8) : longest;
}

/// The shortest and the longest of some rows, on one side.
struct Extent {
  std::int64_t shortest, longest;

  void add(std::int64_t n) { shortest = std::min(shortest, n), longest = std::max(longest, n); }
};

}  // namespace

template <class Get>
void ExampleBuffer::pad(Side& side, std::int64_t rows, const Get& get) const {
  Extent extent = {most_, 0};
  for (std::int64_t r = 0; r < rows; ++r) extent.add(static_cast<std::int64_t>(get(r).size()));
  QUERN_CHECK(extent.longest <= most_, extent.longest, most_);
  side.padded = extent.shortest < extent.longest;
  side.length = padded_length(extent.shortest, extent.longest, most_);
  side.tokens.assign(static_cast<std::size_t>(rows * side.length), 0);
  side.lengths.resize(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::vector<std::int32_t>& row = get(r);
    std::copy(row.begin(), row.end(), side.tokens.begin() + r * side.length);
    side.lengths[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(row.size());
  }
}

Batch ExampleBuffer::gather(RowKind kind, std::int64_t rows, std::int64_t first_row,
                            const std::function<void(std::int64_t, Example&)>& get) {
  if (static_cast<std::int64_t>(examples_.size()) < rows) examples_.resize(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) get(r, examples_[static_cast<std::size_t>(r)]);
  const auto at = [&](std::int64_t r) -> const Example& { return examples_[static_cast<std::size_t>(r)]; };
  pad(
      inputs_, rows, [&](std::int64_t r) -> auto& { return at(r).inputs; });
  pad(
      source_, rows, [&](std::int64_t r) -> auto& { return at(r).source; });

  const std::int64_t T = inputs_.length, each = kind == RowKind::classes ? T : 1;
  targets_.assign(static_cast<std::size_t>(rows * each), kIgnore);
  values_.clear(), patches_.clear();
  Batch batch;
  for (std::int64_t r = 0; r < rows; ++r) {
    const Example& example = at(r);
    if (kind == RowKind::value) {
      values_.push_back(example.value);
    } else {
      std::copy(example.targets.begin(), example.targets.end(), targets_.begin() + r * each);
    }
    patches_.insert(patches_.end(), example.patches.begin(), example.patches.end());
  }
  if (!patches_.empty()) std::iota(inputs_.tokens.begin(), inputs_.tokens.end(), 0);
  batch.rows = rows;
  batch.length = T;
  batch.inputs = inputs_.tokens.data();
  batch.targets = targets_.data();
  batch.lengths = inputs_.padded ? inputs_.lengths.data() : nullptr;
  batch.source = source_.length > 0 ? source_.tokens.data() : nullptr;
  batch.source_length = source_.length;
  batch.source_lengths = source_.padded ? source_.lengths.data() : nullptr;
  batch.values = kind == RowKind::value ? values_.data() : nullptr;
  batch.patches = patches_.empty() ? nullptr : patches_.data();
  batch.target_tokens = kind == RowKind::value ? rows
                                               : std::count_if(targets_.begin(), targets_.end(),
                                                               [](auto t) { return t != kIgnore; });
  batch.first_row = first_row;
  return batch;
}

ExampleSampler::ExampleSampler(const Examples& examples, const ExampleOrder& order)
    : examples_(&examples), order_(order), buffer_(order.context_length) {
  require_countable(order.batch_size * order.micro_batches);
  if (order.batch_tokens == 0) return;
  QUERN_CHECK(examples.train > 0);  // the config was checked
  for (std::int64_t i = 0; i < examples.train; ++i) lengths_.push_back(examples.lengths(i));
  const std::int64_t longest = std::ranges::max(lengths_, {}, &Lengths::both).both();
  if (longest > order.batch_tokens)
    throw Error(ErrorKind::config,
                "run.batch_tokens is " + std::to_string(order.batch_tokens) +
                    ", but the longest example has " + std::to_string(longest) + " tokens",
                "at least " + std::to_string(longest));
  sorted_.resize(lengths_.size());
  cut();
}

void ExampleSampler::sort_epoch(std::int64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  constexpr std::uint64_t site = site_hash("data.examples.ties");
  const RandomStream stream(order_.seed, site, static_cast<std::uint32_t>(epoch));
  std::iota(sorted_.begin(), sorted_.end(), 0);
  const auto key = [&](std::int64_t i) {
    const Lengths& n = lengths_[static_cast<std::size_t>(i)];
    return std::tuple(n.both(), n.source, stream.at(static_cast<std::uint64_t>(i), 0)[0], i);
  };
  std::sort(sorted_.begin(), sorted_.end(), [&](std::int64_t a, std::int64_t b) { return key(a) < key(b); });
}

// Equal lengths change places from epoch to epoch, lengths do not: the cuts are those of every epoch.
void ExampleSampler::cut() {
  sort_epoch(0);
  cuts_ = {0};
  const std::int64_t most = order_.context_length;
  Extent source = {most, 0}, inputs = {most, 0};
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    const Lengths& n = lengths_[static_cast<std::size_t>(sorted_[i])];
    const std::int64_t rows = static_cast<std::int64_t>(i) + 1 - cuts_.back();
    source.add(n.source), inputs.add(n.inputs);
    const std::int64_t padded = padded_length(source.shortest, source.longest, most) +
                                padded_length(inputs.shortest, inputs.longest, most);
    if (rows == 1 || rows * padded <= order_.batch_tokens) continue;
    cuts_.push_back(static_cast<std::int64_t>(i));
    source = {n.source, n.source}, inputs = {n.inputs, n.inputs};
  }
  cuts_.push_back(static_cast<std::int64_t>(sorted_.size()));
}

std::int64_t ExampleSampler::index(std::int64_t step, std::int64_t row) const {
  require_drawable(step);
  const std::int64_t position = step * order_.batch_size * order_.micro_batches + row, n = examples_->train;
  if (n == 0) return position;
  if (order_.order == WindowOrder::shuffle)
    return static_cast<std::int64_t>(permute(static_cast<std::uint64_t>(position % n),
                                             static_cast<std::uint64_t>(n), order_.seed,
                                             static_cast<std::uint32_t>(position / n)));
  constexpr std::uint64_t site = site_hash("data.examples.random");
  const auto bits = RandomStream(order_.seed, site, static_cast<std::uint32_t>(step))
                        .at(static_cast<std::uint64_t>(row), 0);
  return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(n), bits[0], bits[1]));
}

/// Where micro-batch i of a step begins among the sorted examples, and its rows.
std::pair<std::int64_t, std::int64_t> ExampleSampler::cut_of(std::int64_t step, std::int64_t i) {
  require_drawable(step);
  const auto batches = static_cast<std::int64_t>(cuts_.size()) - 1;
  const std::int64_t position = step * order_.micro_batches + i, epoch = position / batches;
  sort_epoch(epoch);
  const auto chosen = static_cast<std::size_t>(permute(static_cast<std::uint64_t>(position % batches),
                                                       static_cast<std::uint64_t>(batches), order_.seed,
                                                       static_cast<std::uint32_t>(epoch)));
  return {cuts_[chosen], cuts_[chosen + 1] - cuts_[chosen]};
}

Batch ExampleSampler::batch(std::int64_t step, std::int64_t i) {
  if (order_.batch_tokens == 0) {
    const std::int64_t first = i * order_.batch_size;
    return buffer_.gather(examples_->kind, order_.batch_size, first, [&](std::int64_t r, Example& to) {
      examples_->get(Split::train, index(step, first + r), to);
    });
  }
  const auto [begin, rows] = cut_of(step, i);
  // Rows of one step have different numbers, as their dropout has: no batch has more rows than tokens.
  return buffer_.gather(examples_->kind, rows, i * order_.batch_tokens,
                        [this, first = begin](std::int64_t r, Example& to) {
                          examples_->get(Split::train, sorted_[static_cast<std::size_t>(first + r)], to);
                        });
}

std::vector<std::int64_t> ExampleSampler::numbers(std::int64_t step) {
  std::vector<std::int64_t> found;
  if (order_.batch_tokens == 0) {
    const std::int64_t rows = order_.batch_size * order_.micro_batches;
    for (std::int64_t row = 0; row < rows; ++row) found.push_back(index(step, row));
    return found;
  }
  for (std::int64_t i = 0; i < order_.micro_batches; ++i) {
    const auto [begin, rows] = cut_of(step, i);
    found.insert(found.end(), sorted_.begin() + begin, sorted_.begin() + begin + rows);
  }
  return found;
}

ExampleEvaluation::ExampleEvaluation(const Examples& examples, Split split, std::int64_t batch_size,
                                     std::int64_t batches, std::int64_t context_length)
    : examples_(&examples),
      split_(split),
      batch_size_(batch_size),
      rows_(batches == 0 ? examples.evaluated(split)
                         : std::min(examples.evaluated(split), batches * batch_size)),
      buffer_(context_length) {}

Batch ExampleEvaluation::batch(std::int64_t i) {
  const std::int64_t first = i * batch_size_, rows = std::min(batch_size_, rows_ - first);
  return buffer_.gather(examples_->kind, rows, first,
                        [&](std::int64_t r, Example& to) { examples_->get(split_, first + r, to); });
}

}  // namespace quern
