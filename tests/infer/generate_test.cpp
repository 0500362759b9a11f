#include "quern/infer/generate.hpp"

#include <algorithm>

#include "catch.hpp"
#include "infer/models.hpp"
#include "quern/text/utf8.hpp"
#include "train/config_check.hpp"

namespace quern {
namespace {

using End = GenerateResult::End;
using Ids = std::vector<std::int32_t>;
using reference::chain_model;
using reference::random_model;
using reference::small_config;

struct Generated {
  std::vector<std::string> pieces;
  std::string text;
  GenerateResult result;
};

Generated run(const Model& model, const Tokenizer& tokenizer, const Ids& prompt,
              const GenerateOptions& options, const std::function<bool()>& cancelled = {}) {
  Generated out;
  out.result = generate(
      model, tokenizer, prompt, options,
      [&](std::string_view piece) {
        out.pieces.emplace_back(piece);
        out.text += piece;
      },
      cancelled);
  return out;
}

GenerateOptions greedy(std::int64_t tokens) {
  GenerateOptions options;
  options.sampler.temperature = 0;
  options.max_new_tokens = tokens;
  return options;
}

Tokenizer letters(std::string_view text) {
  const Text all[] = {{text, {}}};
  return Tokenizer::characters(all);
}

/// next[x] = x + 1, the last one's successor is the first.
Ids ring(std::int32_t n) {
  Ids next;
  for (std::int32_t x = 0; x < n; ++x) next.push_back((x + 1) % n);
  return next;
}

/// A byte model that goes round the bytes of `text`, all of them different.
std::unique_ptr<Model> byte_ring(std::string_view text) {
  Ids next(256, static_cast<unsigned char>(text[0]));
  for (std::size_t i = 0; i < text.size(); ++i)
    next[static_cast<unsigned char>(text[i])] = static_cast<unsigned char>(text[(i + 1) % text.size()]);
  return chain_model(next, 64);
}

/// What generation is, without a cache: the window is read whole for every token. Without a table of
/// positions there is no limit to it.
std::string slowly(const Model& model, const Tokenizer& tokenizer, Ids window, std::int64_t tokens) {
  const std::int64_t T = has_table(model.config().position) ? model.config().context_length : 1 << 20;
  const auto drop = [&window](std::int64_t n) { window.erase(window.begin(), window.begin() + n); };
  const auto length = [&window] { return static_cast<std::int64_t>(window.size()); };
  if (length() > T) drop(length() - T);
  std::string text;
  for (std::int64_t i = 0; i < tokens; ++i) {
    if (length() > T) drop((T + 1) / 2);
    Workspace workspace;
    Tape tape(workspace, Mode::infer);
    const Tensor logits = model.logits(tape, {window.data(), 1, length()}).value();  // (1,T,V)
    const float* last = logits.f32() + (length() - 1) * logits.last();
    window.push_back(static_cast<std::int32_t>(std::max_element(last, last + logits.last()) - last));
    text += tokenizer.token_bytes(window.back());
  }
  return text;
}

TEST_CASE("generation continues the prompt for max_new_tokens") {
  const Tokenizer tokenizer = letters("abcde");
  const auto model = chain_model(ring(5), 64);
  const Generated out = run(*model, tokenizer, tokenizer.encode("ab"), greedy(6));
  CHECK(out.text == "cdeabc");
  CHECK(out.result.end == End::length);
  CHECK(out.result.new_tokens == 6);
  CHECK(out.result.dropped_tokens == 0);
  CHECK(run(*model, tokenizer, tokenizer.encode("ab"), greedy(0)).text.empty());
}

TEST_CASE("past the context the oldest half is dropped and the rest read again") {
  const Tokenizer tokenizer = letters("abcdefghijk");
  for (const auto placement : {NormPlacement::pre, NormPlacement::post})
    for (const std::int64_t T : {1, 2, 7, 8}) {
      const auto model = random_model(small_config(placement, PositionKind::learned, 11, T));
      for (const std::string prompt : {"a", "cab", "deadbeef", "abcdefghijkabcdefghijk"}) {
        CAPTURE(T, prompt);
        const Ids ids = tokenizer.encode(prompt);
        const Generated out = run(*model, tokenizer, ids, greedy(40));
        CHECK(out.text == slowly(*model, tokenizer, ids, 40));
        CHECK(out.result.end == End::length);
        CHECK(out.result.dropped_tokens ==
              std::max<std::int64_t>(0, static_cast<std::int64_t>(ids.size()) - T));
      }
    }
}

/// Every attention with every position, norm and score that the config's check lets pass.
std::vector<ModelConfig> defined_models(std::int64_t vocabulary, std::int64_t context, std::int64_t window) {
  std::vector<ModelConfig> all;
  for (const auto attention : enum_names(AttentionKind{}))
    for (const auto map : enum_names(FeatureMap{}))
      for (const auto position : enum_names(PositionKind{}))
        for (const auto norm : enum_names(NormKind{}))
          for (const auto score : enum_names(ScoreKind{})) {
            Config config;
            config.model = small_config(NormPlacement::pre, position.value, vocabulary, context);
            config.model.attention = attention.value;
            config.model.feature_map = map.value;
            config.model.norm = norm.value;
            config.model.score = score.value;
            config.model.n_kv_heads = norm.value == NormKind::rmsnorm ? 1 : 0;
            if (attention.value == AttentionKind::sliding_window) config.model.window = window;
            if (cross_problems(config).empty()) all.push_back(config.model);
          }
  return all;
}

TEST_CASE("with the cache every kind of attention, position, norm and score decodes as without") {
  constexpr std::int64_t T = 8, window = 5;
  const Tokenizer tokenizer = letters("abcdefghijk");
  const std::string text = "cabdeadbeefkjihgfeda";
  const auto models = defined_models(11, T, window);
  CHECK(models.size() == 2 * (19 + 19 + 4 + 4));  // full and window: not additive with rope; two linear maps
  for (const ModelConfig& config : models) {
    CAPTURE(enum_name(config.attention), enum_name(config.feature_map), enum_name(config.position),
            enum_name(config.norm), enum_name(config.score));
    const auto model = random_model(config);
    for (const std::int64_t prompt :
         {std::int64_t{1}, std::int64_t{2}, window + 1, T - 1, T, T + 1, 2 * T + 3}) {
      CAPTURE(prompt);
      const Ids ids = tokenizer.encode(text.substr(0, static_cast<std::size_t>(prompt)));
      CHECK(run(*model, tokenizer, ids, greedy(T + 4)).text == slowly(*model, tokenizer, ids, T + 4));
    }
  }
}

TEST_CASE("on_full stop ends when a token more would not fit") {
  const Tokenizer tokenizer = letters("abcdefghijk");
  const auto model = random_model(small_config(NormPlacement::pre, PositionKind::sinusoidal, 11, 8));
  GenerateOptions options = greedy(40);
  options.on_full = OnFull::stop;
  const Ids prompt = tokenizer.encode("abc");
  const Generated out = run(*model, tokenizer, prompt, options);
  CHECK(out.result.end == End::context_full);
  CHECK(out.result.new_tokens == 6);  // 3 and 5 fill the context of 8, which predicts one more
  CHECK(out.text == run(*model, tokenizer, prompt, greedy(6)).text);
  options.max_new_tokens = 6;
  CHECK(run(*model, tokenizer, prompt, options).result.end == End::length);
  const Generated full = run(*model, tokenizer, tokenizer.encode("abcdefghijk"), options);
  CHECK(full.result.new_tokens == 1);
  CHECK(full.result.dropped_tokens == 3);
}

TEST_CASE("a model without positions goes on without a limit") {
  const Tokenizer tokenizer = letters("abcdefghijk");
  const auto short_one = random_model(small_config(NormPlacement::pre, PositionKind::none, 11, 4));
  const auto long_one = random_model(small_config(NormPlacement::pre, PositionKind::none, 11, 64));
  GenerateOptions options = greedy(40);
  options.on_full = OnFull::stop;
  const Ids prompt = tokenizer.encode("abcdefghi");
  const Generated out = run(*short_one, tokenizer, prompt, options);
  CHECK(out.result.end == End::length);
  CHECK(out.result.dropped_tokens == 0);
  CHECK(out.text == slowly(*long_one, tokenizer, prompt, 40));
}

TEST_CASE("the text ends before a stop string that straddles tokens") {
  const Tokenizer tokenizer = letters("abcde");
  const auto model = chain_model(ring(5), 64);
  GenerateOptions options = greedy(20);
  options.stop = {"xyz", "dea"};
  const Generated out = run(*model, tokenizer, tokenizer.encode("a"), options);
  CHECK(out.text == "bc");
  CHECK(out.result.end == End::stop_string);
  CHECK(out.result.new_tokens == 5);
  options.stop = {"dex"};  // its beginning is not lost
  CHECK(run(*model, tokenizer, tokenizer.encode("a"), options).text == "bcdeabcdeabcdeabcdea");
  options.stop = {"a"};  // the prompt does not count
  CHECK(run(*model, tokenizer, tokenizer.encode("a"), options).text == "bcde");
  options.max_new_tokens = 3;
  options.stop = {"dea"};  // ends with "d" held back
  CHECK(run(*model, tokenizer, tokenizer.encode("a"), options).text == "bcd");
}

TEST_CASE("text comes in whole characters, also from bytes") {
  const Tokenizer tokenizer = Tokenizer::bytes();
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";  // 1, 2, 3 and 4 bytes
  const auto model = byte_ring(text);
  const Generated out = run(*model, tokenizer, {text.back() & 0xff}, greedy(20));
  CHECK(out.text == text + text);
  const std::vector<std::string> characters = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
  std::vector<std::string> twice = characters;
  twice.insert(twice.end(), characters.begin(), characters.end());
  CHECK(out.pieces == twice);
  const Generated cut = run(*model, tokenizer, {'a'}, greedy(4));  // ends inside the third
  CHECK(cut.text == "\xc3\xa9\xef\xbf\xbd");
  GenerateOptions options = greedy(20);
  options.stop = {"\xe2\x82\xac"};
  CHECK(run(*model, tokenizer, {'a'}, options).text == "\xc3\xa9");
}

TEST_CASE("an empty prompt starts after a newline, or else after token 0") {
  const Tokenizer with = letters("\nabc"), without = letters("abcd");
  const auto model = chain_model(ring(4), 64);
  CHECK(run(*model, with, {}, greedy(3)).text == "abc");
  CHECK(run(*model, without, {}, greedy(3)).text == "bcd");
  const auto bytes = byte_ring("\nxyz");
  CHECK(run(*bytes, Tokenizer::bytes(), {}, greedy(3)).text == "xyz");
}

TEST_CASE("tokens beyond the tokenizer's are never drawn") {
  const Tokenizer tokenizer = letters("abcde");
  Ids next = ring(8);
  next[0] = 7;
  const auto model = chain_model(next, 64);
  const Generated out = run(*model, tokenizer, tokenizer.encode("a"), greedy(5));
  CHECK(out.text.size() == 5);
}

TEST_CASE("the history of the repetition penalty is the prompt and what was drawn") {
  const Tokenizer tokenizer = letters("abcdefgh");
  const auto model = chain_model(ring(8), 2, PositionKind::learned);
  for (Parameter& p : model->parameters().all()) {  // after "a" and "h" an "f" is 0.9 of what the ring says
    if (p.name != "head.weight") continue;
    p.slot.value.f32()[5 * 8 + 0] = p.slot.value.f32()[5 * 8 + 7] = 1.217F;
  }
  GenerateOptions options = greedy(7);
  CHECK(run(*model, tokenizer, tokenizer.encode("bda"), options).text == "bcdefgh");
  options.sampler.repetition_penalty = 1.2;  // 1 / 1.2 is below 0.9, but above 0.9 / 1.2
  CHECK(run(*model, tokenizer, tokenizer.encode("bda"), options).text == "fghabcd");
}

TEST_CASE("equal arguments give equal text, other samples and seeds another") {
  const Tokenizer tokenizer = letters("abcdefghijk");
  const auto model = random_model(small_config(NormPlacement::pre, PositionKind::learned, 11, 8));
  GenerateOptions options;
  options.max_new_tokens = 60;
  const Ids prompt = tokenizer.encode("abc");
  const std::string first = run(*model, tokenizer, prompt, options).text;
  CHECK(run(*model, tokenizer, prompt, options).text == first);
  options.sample_index = 1;
  CHECK(run(*model, tokenizer, prompt, options).text != first);
  options.sample_index = 0;
  options.sampler.seed = 1;
  CHECK(run(*model, tokenizer, prompt, options).text != first);
}

TEST_CASE("a cancelled generation has shown what it drew") {
  const Tokenizer tokenizer = letters("abcde");
  const auto model = chain_model(ring(5), 64);
  GenerateOptions options = greedy(100);
  options.stop = {"dex"};
  int asked = 0;
  const Generated out = run(*model, tokenizer, tokenizer.encode("a"), options, [&] { return ++asked > 4; });
  CHECK(out.result.end == End::cancelled);
  CHECK(out.result.new_tokens == 4);
  CHECK(out.text == "bcde");
}

TEST_CASE("options that make no sense are refused") {
  GenerateOptions negative, empty_stop, cold;
  negative.max_new_tokens = -1;
  empty_stop.stop = {"a", ""};
  cold.sampler.temperature = -1;
  CHECK_THROWS_AS(check(negative), Error);
  CHECK_THROWS_AS(check(empty_stop), Error);
  CHECK_THROWS_AS(check(cold), Error);
  CHECK_NOTHROW(check(GenerateOptions{}));
}

}  // namespace
}  // namespace quern
