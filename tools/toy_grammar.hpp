// The embedded corpus: small stories from a grammar whose entropy is known exactly.
//
// A story is told through a Chooser, which makes every choice and receives every piece of text. The
// generator's chooser draws at random and adds up -ln P(choice). No story has two derivations
// (tests/tools/toy_test.cpp replays all of them against the text), so that sum is -ln P(text): the loss of a
// perfect model, the floor under every loss curve on this text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quern::toy {

class Chooser {
 public:
  virtual ~Chooser() = default;
  // An index below weights.size(), taken with probability weights[i] / sum of weights; never one of weight 0.
  virtual std::size_t choose(std::span<const std::uint32_t> weights) = 0;
  virtual void emit(std::string_view text) = 0;
};

// Tells one story, one paragraph without a newline. A pure function of the answers of the chooser.
void tell_story(Chooser& chooser);

// -ln(weight / total) in units of 2^-40 nats. Integers, so that sums are exact in any order.
std::uint64_t choice_cost(std::uint64_t weight, std::uint64_t total);
double nats(std::uint64_t cost);

struct Text {
  std::string text;  // stories with a blank line between them, and a newline at the end
  std::uint64_t stories = 0;
  std::uint64_t cost = 0;       // of all choices
  std::uint64_t cost_tail = 0;  // of the choices made at or after character floor(0.9 * text.size())
};

// Whole stories until there are at least min_chars characters. Where a text ends is settled by its length
// alone, and a story's end and the blank line after it by the story's choices, so neither adds to the cost.
// Text number `stream` of a seed shares no random number with the others.
Text generate(std::uint64_t seed, std::uint64_t stream, std::size_t min_chars);

struct Corpus {
  Text train;        // toy.txt: its last tenth is for validation
  Text heldout;      // toy.heldout.txt
  std::string meta;  // toy.meta.json
};

inline constexpr std::uint64_t default_seed = 1;

Corpus make_corpus(std::uint64_t seed);

}  // namespace quern::toy
