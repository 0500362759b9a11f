#include "quern/data/baselines.hpp"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace quern {
namespace {

/// The most frequent token, and the most frequent one behind each.
struct Followers {
  std::int32_t most = 0;
  std::vector<std::int32_t> behind;  // (vocabulary)

  Followers(TokenView tokens, std::int32_t vocabulary) {
    std::vector<std::int64_t> single(static_cast<std::size_t>(vocabulary));
    std::unordered_map<std::int64_t, std::int64_t> pairs;
    std::vector<std::int32_t> all(static_cast<std::size_t>(tokens.size()));
    tokens.copy(0, tokens.size(), all.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      ++single[static_cast<std::size_t>(all[i])];
      if (i > 0) ++pairs[std::int64_t{all[i - 1]} * vocabulary + all[i]];
    }
    most = static_cast<std::int32_t>(std::max_element(single.begin(), single.end()) - single.begin());
    behind.assign(static_cast<std::size_t>(vocabulary), most);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(vocabulary));
    for (const auto& [pair, count] : pairs) {
      const auto before = static_cast<std::size_t>(pair / vocabulary);
      const auto token = static_cast<std::int32_t>(pair % vocabulary);
      if (count < counts[before] || (count == counts[before] && token > behind[before])) continue;
      counts[before] = count;
      behind[before] = token;
    }
  }
};

}  // namespace

MaskedBaselines masked_baselines(TokenView train, EvalWindows& windows, std::int32_t vocabulary) {
  const Followers followers(train, vocabulary);
  std::int64_t unigram = 0, bigram = 0, all = 0;
  for (std::int64_t i = 0; i < windows.batches(); ++i) {
    const Batch batch = windows.batch(i);
    for (std::int64_t j = 0; j < batch.rows * batch.length; ++j) {
      const std::int32_t target = batch.targets[j];
      if (target == kIgnore) continue;
      const bool known = j % batch.length > 0 && batch.inputs[j - 1] < vocabulary;
      const std::int32_t guess =
          known ? followers.behind[static_cast<std::size_t>(batch.inputs[j - 1])] : followers.most;
      unigram += target == followers.most;
      bigram += target == guess;
      ++all;
    }
  }
  const auto share = [all](std::int64_t n) {
    return all > 0 ? static_cast<double>(n) / static_cast<double>(all) : 0;
  };
  return {share(unigram), share(bigram)};
}

}  // namespace quern
