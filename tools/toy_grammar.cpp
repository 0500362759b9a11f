#include "toy_grammar.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace quern::toy {
namespace {

// ---- The grammar
// ---------------------------------------------------------------------------------------------
//
//   {kind}    a word of this kind, all equally likely
//   {kind1}   the same at its first mention; later mentions copy that word
//   {twin1}   a kind with a twin is not drawn: its word stands where the twin's word of that number stands
//   (a|b|c)   one of these, all equally likely
//   <rule>    the text of this rule
//
// Words of a `fresh` kind are drawn without replacement within a story.

struct Kind {
  std::string_view name;
  bool fresh;
  std::string_view words;
  std::string_view twin = {};
};

constexpr Kind kinds[] = {
    {"name", true, "Bo Coco Dot Finn Gus Hugo Lulu Otto Pip Wren"},
    {"animal", true, "bear cat dog fox goat hare lamb otter pig wolf", "name"},
    {"thing", true, "bell cup drum hat kite lamp map ring scarf vase"},
    {"colour", false, "blue brown golden green pink red silver white yellow"},
    {"near", false, "by near behind beside"},
    {"site", false, "big cosy dark green leafy mossy new old pretty quiet rocky tiny"},
    {"place", false, "barn cave dam elm farm garden inn lake mill oak pond school tower well"},
    {"number", false, "two three four five six seven eight nine ten"},
    {"taste", false, "big crisp dry fresh huge juicy little plain ripe soft tasty warm"},
    {"food", false, "beans cakes dates eggs figs grapes limes nuts pears rolls tarts yams"},
    {"mood", false, "bright calm foggy happy icy long rainy snowy sunny windy"},
    {"daypart", false, "morning afternoon evening day"},
    {"soup", true, "soup stew curry porridge"},
};

struct Rule {
  std::string_view name;
  std::string_view text;
};

constexpr Rule rules[] = {
    {"story", "One {mood} {daypart} {name1} the {animal1} (<hunt>|<meal>|<picnic>|<trip>)"},
    {"at", "{near} the {site} {place}"},
    {"snacks", "{number} {taste} {food}"},

    // Something lost and found.
    {"hunt", "lost a {colour} {thing1} <at>. A friend found the {thing1} <at> and got <snacks>."},

    // Something to eat.
    {"meal",
     "made a {soup1} with <snacks> and <snacks>. But the {animal1} did not eat the {soup1} because it was "
     "too "
     "(<sleepy>|hot. So it cooled <at>.)"},

    // A friend.
    {"picnic", "met {name2} the {animal2} <at>. They ate <snacks>, <snacks> and <snacks> <at>."},

    // Something in the way.
    {"trip",
     "took <snacks> and <snacks> to the {site} {place}. But the {animal1} did not "
     "(cross the bridge because it was too (<hungry>|<sleepy>|(narrow|shaky). <path>)"
     "|climb the hill because it was too (<hungry>|<sleepy>|(muddy|steep). <path>))"},

    // The last adjective settles whose "it" it is: the animal's, or what stands in its way.
    {"hungry", "hungry. So it ate <snacks>."},
    {"sleepy", "(sleepy|tired). So it slept <at>."},
    {"path", "So the way went <at>."},
};

// ---- Its interpreter
// -----------------------------------------------------------------------------------------

// The part of `text` up to the closing bracket that matches the opening one at `open`.
std::string_view inside(std::string_view text, std::size_t open, char opening, char closing) {
  std::size_t depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == opening) ++depth;
    if (text[i] == closing && --depth == 0) return text.substr(open + 1, i - open - 1);
  }
  throw std::logic_error("toy grammar: a bracket is not closed: " + std::string(text));
}

// Splits at the separators that stand in no round bracket.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t depth = 0, begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == separator && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

template <class Table>
std::size_t find(const Table& table, std::string_view name) {
  const auto row =
      std::find_if(std::begin(table), std::end(table), [&](const auto& r) { return r.name == name; });
  if (row == std::end(table)) throw std::logic_error("toy grammar: unknown name " + std::string(name));
  return static_cast<std::size_t>(row - std::begin(table));
}

class Teller {
 public:
  explicit Teller(Chooser& chooser) : chooser_(chooser) { bound_.reserve(16); }

  void tell(std::string_view text) {
    std::size_t i = 0;
    while (i < text.size()) {
      const std::size_t plain = std::min(text.find_first_of("{<(", i), text.size());
      if (plain > i) chooser_.emit(text.substr(i, plain - i));
      i = plain;
      if (i == text.size()) break;
      const char opening = text[i];
      const std::string_view body = inside(text, i, opening,
                                           opening == '{'   ? '}'
                                           : opening == '<' ? '>'
                                                            : ')');
      if (opening == '{') {
        slot(body);
      } else if (opening == '<') {
        tell(rules[find(rules, body)].text);
      } else {
        alternatives(body);
      }
      i += body.size() + 2;
    }
  }

 private:
  struct Bound {
    std::string_view slot;
    std::size_t word;  // its place in the kind's list
  };

  void alternatives(std::string_view body) {
    const std::vector<std::string_view> parts = split(body, '|');
    const std::vector<std::uint32_t> weights(parts.size(), 1);
    tell(parts.at(chooser_.choose(weights)));
  }

  void slot(std::string_view name) {
    const bool numbered = name.back() >= '0' && name.back() <= '9';
    const std::size_t kind = find(kinds, numbered ? name.substr(0, name.size() - 1) : name);
    const std::string_view twin = kinds[kind].twin;
    const std::string source = twin.empty() ? std::string(name) : std::string(twin) + name.back();
    const auto bound =
        std::find_if(bound_.begin(), bound_.end(), [&](const Bound& b) { return b.slot == source; });
    if (bound != bound_.end()) return chooser_.emit(vocabulary()[kind].at(bound->word));
    if (!twin.empty())
      throw std::logic_error("toy grammar: no word yet for the twin of " + std::string(name));
    const std::size_t word = draw(kind);
    if (numbered) bound_.push_back({name, word});
    chooser_.emit(vocabulary()[kind].at(word));
  }

  std::size_t draw(std::size_t kind) {
    std::array<std::uint32_t, 32> weights{};
    const std::size_t count = vocabulary()[kind].size();
    for (std::size_t i = 0; i < count; ++i) weights.at(i) = (used_[kind] >> i & 1) == 0;
    const std::size_t choice = chooser_.choose(std::span(weights).first(count));
    if (kinds[kind].fresh) used_[kind] |= std::uint32_t{1} << choice;
    return choice;
  }

  static const std::vector<std::vector<std::string_view>>& vocabulary() {
    static const auto words = [] {
      std::vector<std::vector<std::string_view>> all;
      for (const Kind& kind : kinds) all.push_back(split(kind.words, ' '));
      return all;
    }();
    return words;
  }

  Chooser& chooser_;
  std::vector<Bound> bound_;
  std::array<std::uint32_t, std::size(kinds)> used_{};  // one bit a word
};

// ---- The generator
// -------------------------------------------------------------------------------------------

// Number `index` of stream `stream` of a seed, from nothing else: the finaliser of SplitMix64.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15u;
  return mix(mix(mix(seed + odd) + stream + odd) + index * odd);
}

class RandomChooser final : public Chooser {
 public:
  RandomChooser(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  std::size_t choose(std::span<const std::uint32_t> weights) override {
    const std::uint64_t total = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
    std::uint64_t left = random_bits(seed_, stream_, index_++) % total;
    std::size_t choice = 0;
    while (left >= weights[choice]) left -= weights[choice++];
    costs_.emplace_back(text_.size(), choice_cost(weights[choice], total));
    return choice;
  }
  void emit(std::string_view text) override { text_ += text; }

  const std::string& text() const { return text_; }
  // The cost of the choices made when at least `from` characters stood there.
  std::uint64_t cost(std::size_t from) const {
    std::uint64_t sum = 0;
    for (const auto& [at, cost] : costs_) sum += at >= from ? cost : 0;
    return sum;
  }

 private:
  std::uint64_t seed_, stream_, index_ = 0;
  std::string text_;
  std::vector<std::pair<std::size_t, std::uint64_t>> costs_;  // where it was made, what it cost
};

std::size_t distinct_chars(std::string_view text) {
  std::array<bool, 256> seen{};
  for (const char c : text) seen[static_cast<unsigned char>(c)] = true;
  return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), true));
}

// The shortest decimal that reads back as the same double.
std::string number(double x) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x).ptr;
  return {buffer.data(), end};
}

std::string describe(std::uint64_t seed, const Text& train, const Text& heldout) {
  const std::size_t n = train.text.size(), tail = n - n / 10 * 9 - n % 10 * 9 / 10;
  const auto per_char = [](std::uint64_t cost, std::size_t chars) {
    return number(nats(cost) / static_cast<double>(chars));
  };
  const auto whole = [](std::uint64_t x) { return std::to_string(x); };
  const std::pair<std::string_view, std::string> fields[] = {
      {"about",
       "\"Small stories from a grammar with one derivation a text, so that -ln P(text) is known: no model "
       "can be "
       "expected to reach a lower loss. See tools/toy_grammar.cpp.\""},
      {"seed", whole(seed)},
      {"chars", whole(n)},
      {"stories", whole(train.stories)},
      {"distinct_chars", whole(distinct_chars(train.text))},
      {"entropy_nats_per_char", per_char(train.cost, n)},
      {"val_chars", whole(tail)},
      {"entropy_nats_per_char_val", per_char(train.cost_tail, tail)},
      {"heldout_chars", whole(heldout.text.size())},
      {"heldout_stories", whole(heldout.stories)},
      {"heldout_entropy_nats_per_char", per_char(heldout.cost, heldout.text.size())},
  };
  std::string json;
  for (const auto& [key, value] : fields) {
    json += (json.empty() ? "{\n  \"" : ",\n  \"") + std::string(key) + "\": " + value;
  }
  return json + "\n}\n";
}

}  // namespace

void tell_story(Chooser& chooser) { Teller(chooser).tell(rules[find(rules, "story")].text); }

std::uint64_t choice_cost(std::uint64_t weight, std::uint64_t total) {
  const double cost = std::log(static_cast<double>(total) / static_cast<double>(weight));
  return static_cast<std::uint64_t>(std::llround(std::ldexp(cost, 40)));
}

double nats(std::uint64_t cost) { return std::ldexp(static_cast<double>(cost), -40); }

Text generate(std::uint64_t seed, std::uint64_t stream, std::size_t min_chars) {
  RandomChooser chooser(seed, stream);
  Text result;
  while (chooser.text().size() < min_chars) {
    if (result.stories++ > 0) chooser.emit("\n");
    tell_story(chooser);
    chooser.emit("\n");
  }
  const std::size_t n = chooser.text().size();
  result.text = chooser.text();
  result.cost = chooser.cost(0);
  result.cost_tail = chooser.cost(n / 10 * 9 + n % 10 * 9 / 10);
  return result;
}

Corpus make_corpus(std::uint64_t seed) {
  Corpus corpus{generate(seed, 0, 1'000'000), generate(seed, 1, 50'000), {}};
  corpus.meta = describe(seed, corpus.train, corpus.heldout);
  return corpus;
}

}  // namespace quern::toy
