#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../tools/toy_grammar.hpp"
#include "catch.hpp"

namespace toy = quern::toy;

namespace {

std::string read(const std::string& name) {
  std::ifstream file(std::string(QUERN_DATA_DIR) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> stories(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end > begin) all.push_back(text.substr(begin, end - begin));
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return all;
}

struct Mismatch {};

// Replays the grammar along a script of choices and stops as soon as the story differs from the text. Past
// the end of the script it takes the first possible choice and notes it, so that next() steps through every
// derivation.
class Replay final : public toy::Chooser {
 public:
  explicit Replay(std::string_view text) : text_(text) {}

  std::size_t choose(std::span<const std::uint32_t> weights) override {
    if (depth_ == script_.size()) script_.push_back({first(weights, 0), {weights.begin(), weights.end()}});
    return script_[depth_++].choice;
  }
  void emit(std::string_view text) override {
    if (text_.substr(at_, text.size()) != text) throw Mismatch{};
    at_ += text.size();
  }

  // True when this script tells the whole text and nothing else.
  bool run() {
    at_ = depth_ = 0;
    try {
      toy::tell_story(*this);
    } catch (const Mismatch&) {
      script_.resize(depth_);  // nothing that follows these choices can match
      return false;
    }
    return at_ == text_.size();
  }
  // On to the next script in depth-first order; false when there is none.
  bool next() {
    while (!script_.empty()) {
      Choice& last = script_.back();
      last.choice = first(last.weights, last.choice + 1);
      if (last.choice < last.weights.size()) return true;
      script_.pop_back();
    }
    return false;
  }
  std::uint64_t cost() const {
    std::uint64_t sum = 0;
    for (const Choice& c : script_) {
      std::uint64_t total = 0;
      for (const std::uint32_t w : c.weights) total += w;
      sum += toy::choice_cost(c.weights[c.choice], total);
    }
    return sum;
  }

 private:
  struct Choice {
    std::size_t choice;
    std::vector<std::uint32_t> weights;
  };
  static std::size_t first(std::span<const std::uint32_t> weights, std::size_t from) {
    while (from < weights.size() && weights[from] == 0) ++from;
    return from;
  }

  std::string_view text_;
  std::size_t at_ = 0, depth_ = 0;
  std::vector<Choice> script_;
};

struct Parse {
  int derivations = 0;
  std::uint64_t cost = 0;
};

Parse parse(std::string_view story) {
  Parse result;
  Replay replay(story);
  do {
    if (!replay.run()) continue;
    ++result.derivations;
    result.cost = replay.cost();
  } while (replay.next());
  return result;
}

double number_in(const std::string& json, const std::string& key) {
  const std::size_t at = json.find('"' + key + "\": ");
  REQUIRE(at != std::string::npos);
  return std::stod(json.substr(at + key.size() + 4));
}

}  // namespace

TEST_CASE("the embedded corpus comes out of its generator byte for byte") {
  const toy::Corpus corpus = toy::make_corpus(toy::default_seed);
  CHECK((corpus.train.text == read("toy.txt")));
  CHECK((corpus.heldout.text == read("toy.heldout.txt")));
  CHECK(corpus.meta == read("toy.meta.json"));
  CHECK((toy::make_corpus(toy::default_seed + 1).train.text != corpus.train.text));
}

// A text ends at the first story past its length, so a shorter one of the same stream is the beginning of a
// longer.
TEST_CASE("every story has exactly one derivation, so its probability is known") {
  const toy::Text whole_heldout = toy::generate(toy::default_seed, 1, read("toy.heldout.txt").size());
  const toy::Text start = toy::generate(toy::default_seed, 0, 110'000);
  REQUIRE(read("toy.txt").starts_with(start.text));
  REQUIRE(read("toy.heldout.txt") == whole_heldout.text);
  REQUIRE(start.stories >= 300);
  for (const toy::Text* text : {&start, &whole_heldout}) {
    const std::vector<std::string> all = stories(text->text);
    REQUIRE(all.size() == text->stories);
    std::uint64_t cost = 0;
    for (const std::string& story : all) {
      INFO(story);
      const Parse p = parse(story);
      REQUIRE(p.derivations == 1);
      cost += p.cost;
    }
    CHECK(cost == text->cost);  // integers: equal, not close
  }
}

TEST_CASE("the sidecar of the corpus states what the stories cost") {
  const std::string meta = read("toy.meta.json"), text = read("toy.txt"), heldout = read("toy.heldout.txt");
  const toy::Corpus corpus = toy::make_corpus(toy::default_seed);
  CHECK(number_in(meta, "chars") == static_cast<double>(text.size()));
  CHECK(number_in(meta, "heldout_chars") == static_cast<double>(heldout.size()));
  CHECK(number_in(meta, "stories") == static_cast<double>(stories(text).size()));
  CHECK(number_in(meta, "entropy_nats_per_char") ==
        toy::nats(corpus.train.cost) / static_cast<double>(text.size()));
  CHECK(number_in(meta, "entropy_nats_per_char_val") ==
        toy::nats(corpus.train.cost_tail) / static_cast<double>(text.size() - text.size() * 9 / 10));
  CHECK(number_in(meta, "heldout_entropy_nats_per_char") ==
        toy::nats(corpus.heldout.cost) / static_cast<double>(heldout.size()));
}

TEST_CASE("a text that the grammar cannot tell has no derivation") {
  std::string story = stories(read("toy.heldout.txt")).front();
  CHECK(parse(story).derivations == 1);
  CHECK(parse(story + " ").derivations == 0);
  CHECK(parse(story.substr(0, story.size() - 1)).derivations == 0);
  story[story.size() / 2] ^= 1;
  CHECK(parse(story).derivations == 0);
}

TEST_CASE("stories are plain ASCII, short, and no two are the same") {
  std::vector<std::string> all = stories(read("toy.txt"));
  for (const std::string& story : all) {
    REQUIRE(story.size() < 400);
    REQUIRE(std::all_of(story.begin(), story.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  }
  std::sort(all.begin(), all.end());
  CHECK((std::adjacent_find(all.begin(), all.end()) == all.end()));
}
