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
//   (a|b|c)   one of these, all equally likely
//   <rule>    the text of this rule
//
// Words of a `fresh` kind are drawn without replacement within a story.

struct Kind {
  std::string_view name;
  bool fresh;
  std::string_view words;
};

constexpr Kind kinds[] = {
    {"name", true, "Ada Bo Coco Dot Finn Gus Hugo Ivy Juno Kit Lulu Momo Nell Otto Pip Rosa Tess Wren"},
    {"animal", true, "bear cat dog elk fox goat hare lamb mouse newt otter pig rabbit toad wolf yak"},
    {"trait", true, "brave clever gentle happy jolly kind lazy noble polite shy tidy young"},
    {"thing", true, "bell cup drum flute globe hat jug kite lamp map pillow rug scarf teapot vase whistle"},
    {"colour", true, "red blue green pink white yellow purple brown silver golden"},
    {"look", true, "big dusty fancy little new pretty shiny tiny"},
    {"near", false, "by near behind beside"},
    {"site", true, "big cosy grey leafy lovely mossy new old pretty quiet shady tiny"},
    {"place", true, "barn cottage dam elm farm garden hedge inn lake mill oak pond rock school tower well"},
    {"number", true, "two three four five six seven eight nine"},
    {"taste", true, "fresh huge juicy plain ripe soft tasty warm"},
    {"food", true, "buns cakes dates eggs figs grapes limes muffins nuts pears rolls tarts"},
    {"mood", true, "calm fine grey happy long lucky quiet slow"},
    {"weather", true, "bright cold foggy icy misty rainy snowy sunny warm windy"},
    {"daypart", true, "morning afternoon evening day"},
    {"voice", false, "said cried sang laughed shouted whispered"},
    {"gait", true, "danced hopped jogged marched raced skipped trotted walked"},
    {"tub", true, "barrel tub sack crate wagon kettle"},
    {"box", true, "box chest trunk drawer"},
    {"soup", true, "soup stew curry porridge"},
    {"praise", true, "fine grand lovely perfect splendid super"},
};

struct Rule {
  std::string_view name;
  std::string_view text;
};

constexpr Rule rules[] = {
    {"story",
     "One {mood}, {weather} {daypart}, {name1} the {trait} {animal1} (<gift>|<lost>|<hide>|<cook>|<swap>)"},
    {"at", "{near} the {site} {place}"},
    {"friend", "{name2} the {trait} {animal2}"},
    {"snacks", "{number} {taste} {food}"},

    // A present for a friend.
    {"gift",
     "(found|bought|made|won) a {look} {colour1} {thing1} <at>. "
     "({name1} wanted to give the {colour1} {thing1} to <friend>.|\"This {colour1} {thing1} is for "
     "<friend>,\" {voice} {name1}."
     "|{name1} wrapped the {colour1} {thing1} for <friend>.) But the {animal1} did not <passage> "
     "(\"What a {praise} {thing1}!\"|\"Thank you, {name1}!\") {voice} {name2}."},

    // Something lost and found.
    {"lost",
     "lost a {look} {colour1} {thing1}. {name1} looked <at> and <at>, but found only <snacks>. "
     "\"Is the {colour1} {thing1} in the {box1}?\" asked <friend>. But {name1} did not open the {box1} "
     "because it was too "
     "(<weary>|(dusty|rusty|sticky|stiff). So {name2} gave the {box1} a (kick|push|shake|tap).) "
     "(Out fell|Inside was) the {thing1}!"},

    // Hide and seek.
    {"hide",
     "and <friend> played hide and seek. {name2} hid in a {look} {colour1} {tub1} <at>. {name1} looked for "
     "{name2} "
     "<at> and {gait} past the {tub1}. But {name1} did not look in the cave because it was too "
     "(<weary>|(dark|damp|deep|gloomy). So {name1} lit a (candle|fire|torch) <at>.) "
     "Then out of the {tub1} (hopped|jumped|popped|rolled) {name2}!"},

    // Something to eat.
    {"cook",
     "cooked a {soup1} with <snacks>, <snacks> and <snacks> for <friend>. But {name1} did not eat the "
     "{soup1} "
     "because it was too (<full>|<bad>) \"What a {praise} {soup1}!\" {voice} {name2}."},
    {"full", "(<nap>|(full|stuffed). So {name1} saved the {soup1} for (breakfast|lunch|supper).)"},
    {"bad", "(hot. So {name1} waited <at>.|(bitter|salty|sour|spicy). So {name1} added <snacks>.)"},

    // A bargain.
    {"swap",
     "had a {look} {colour1} {thing1} and <friend> had {number1} {taste} {food1}. \"My {colour1} {thing1} "
     "for "
     "your {number1} {food1}?\" {voice} {name1}. "
     "(\"Yes!\" {voice} {name2}. So {name2} got the {thing1} and {name1} got the {food1}."
     "|\"No!\" {voice} {name2}. So {name2} kept the {food1} and {name1} kept the {thing1}.) "
     "Going home, {name1} did not <passage>"},

    // The sentence whose "it" only the last adjective settles: the animal or the thing in its way.
    {"passage",
     "(cross the bridge because it was too (<weary>|(narrow|shaky|slippery). <other> bridge <at>.)"
     "|take the path because it was too (<weary>|(bumpy|steep|stony). <other> path <at>.)"
     "|use the gate because it was too (<weary>|(low|narrow|rusty). <other> gate <at>.)"
     "|row the boat because it was too (<weary>|(leaky|narrow|shaky). <other> boat <at>.)"
     "|climb the ladder because it was too (<weary>|(rusty|shaky|steep). <other> ladder <at>.))"},
    {"other", "So {name1} found another"},
    {"weary", "(<nap>|<snack>|<brave>)"},
    {"nap", "(sleepy|tired|weary). So {name1} (dozed|napped|rested|slept) <at>."},
    {"snack", "hungry. So {name1} ate <snacks>."},
    {"brave", "(nervous|scared|timid). So {name1} sang a (brave|merry|silly) song <at>."},
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
    std::string_view slot, word;
  };

  void alternatives(std::string_view body) {
    const std::vector<std::string_view> parts = split(body, '|');
    const std::vector<std::uint32_t> weights(parts.size(), 1);
    tell(parts.at(chooser_.choose(weights)));
  }

  void slot(std::string_view name) {
    const bool named = name.back() >= '0' && name.back() <= '9';
    if (named) {
      for (const Bound& b : bound_) {
        if (b.slot == name) return chooser_.emit(b.word);
      }
    }
    const std::string_view word = draw(find(kinds, named ? name.substr(0, name.size() - 1) : name));
    if (named) bound_.push_back({name, word});
    chooser_.emit(word);
  }

  std::string_view draw(std::size_t kind) {
    const std::vector<std::string_view>& words = vocabulary()[kind];
    std::array<std::uint32_t, 32> weights{};
    for (std::size_t i = 0; i < words.size(); ++i) weights.at(i) = (used_[kind] >> i & 1) == 0;
    const std::size_t choice = chooser_.choose(std::span(weights).first(words.size()));
    if (kinds[kind].fresh) used_[kind] |= std::uint32_t{1} << choice;
    return words.at(choice);
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
