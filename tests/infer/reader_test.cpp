#include "quern/infer/reader.hpp"

#include "infer/models.hpp"
#include "reference/check.hpp"

namespace quern {
namespace {

using Ids = std::vector<std::int32_t>;
using reference::random_model;
using reference::small_config;

// f32 sums of at most 64 products in another order, through 2 blocks: some 1e-6 of the logits' scale.
constexpr double tolerance = 1e-5;

Ids some_ids(std::int64_t n, std::int64_t vocabulary) {
  Ids ids;
  for (std::int64_t i = 0; i < n; ++i)
    ids.push_back(static_cast<std::int32_t>((i * i + 3 * i + 1) % vocabulary));
  return ids;
}

std::vector<float> logits_of(const Model& model, std::span<const std::int32_t> ids, KVCache* cache) {
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  const Tensor logits =
      model.logits(tape, {ids.data(), 1, static_cast<std::int64_t>(ids.size())}, cache).value();
  return {logits.f32(), logits.f32() + logits.size()};
}

std::vector<float> cut(const std::vector<float>& x, std::int64_t begin, std::int64_t end) {
  return {x.begin() + begin, x.begin() + end};
}

TEST_CASE("cached logits equal the full forward, however the text is cut") {
  constexpr std::int64_t T = 12, V = 11;
  const std::vector<std::vector<std::int64_t>> cuts = {
      {12}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {5, 7}, {7, 1, 4}, {1, 11}, {11, 1}, {2, 3, 1, 6}};
  for (const auto placement : {NormPlacement::pre, NormPlacement::post})
    for (const auto position : {PositionKind::learned, PositionKind::sinusoidal, PositionKind::rope,
                                PositionKind::alibi, PositionKind::none}) {
      ModelConfig config = small_config(placement, position, V, T);
      config.qk_norm = placement == NormPlacement::post;
      config.n_kv_heads = placement == NormPlacement::pre ? 1 : 0;
      const auto model = random_model(config);
      const Ids ids = some_ids(T, V);
      const auto full = logits_of(*model, ids, nullptr);  // (T,V)
      for (const auto& lengths : cuts) {
        KVCache cache(config, 1, T, Type::f32);
        std::int64_t at = 0;
        for (const std::int64_t n : lengths) {
          const auto part =
              logits_of(*model, std::span(ids).subspan(static_cast<std::size_t>(at), n), &cache);
          CHECK(reference::relative_error(part, cut(full, at * V, (at + n) * V)) < tolerance);
          at += n;
        }
        CHECK(cache.length() == T);
      }
    }
}

TEST_CASE("the last logits of every prefix are a row of the full forward") {
  constexpr std::int64_t T = 9, V = 11;
  const auto model = random_model(small_config(NormPlacement::pre, PositionKind::learned, V, T));
  const Ids ids = some_ids(T, V);
  const auto full = logits_of(*model, ids, nullptr);
  for (std::int64_t n = 1; n <= T; ++n) {
    Reader reader(*model);
    const auto last = reader.read(std::span(ids).first(static_cast<std::size_t>(n)));
    CHECK(reference::relative_error(last, cut(full, (n - 1) * V, n * V)) < tolerance);
    CHECK(reader.length() == n);
  }
}

TEST_CASE("a long text is read in parts; without a table of positions the cache grows") {
  constexpr std::int64_t T = 700, V = 11;
  const Ids ids = some_ids(T, V);
  for (const auto position : {PositionKind::learned, PositionKind::rope, PositionKind::none}) {
    const bool grows = position != PositionKind::learned;
    const auto model = random_model(small_config(NormPlacement::pre, position, V, grows ? 8 : T));
    const auto full = logits_of(*model, ids, nullptr);
    Reader reader(*model);
    CHECK(reader.limit().has_value() != grows);
    std::int64_t at = 0;
    for (const std::int64_t n : {3, 600, 1, 1, 95}) {
      const auto last = reader.read(std::span(ids).subspan(static_cast<std::size_t>(at), n));
      at += n;
      CHECK(reference::relative_error(last, cut(full, (at - 1) * V, at * V)) < tolerance);
    }
    reader.clear();
    CHECK(reference::relative_error(reader.read(std::span(ids).first(2)), cut(full, V, 2 * V)) < tolerance);
  }
}

TEST_CASE("a window's cache rolls: cached logits equal the full forward past the window and the context") {
  constexpr std::int64_t T = 8, V = 11, all = 1200;
  const Ids ids = some_ids(all, V);
  for (const auto position : {PositionKind::rope, PositionKind::alibi, PositionKind::none})
    for (const auto& [window, globals] :
         {std::pair<std::int64_t, std::int64_t>{1, 0}, {5, 0}, {300, 0}, {5, 3}, {40, 30}}) {
      CAPTURE(static_cast<int>(position), window, globals);
      ModelConfig config = small_config(NormPlacement::pre, position, V, T);
      config.attention = AttentionKind::sliding_window;
      config.window = window;
      config.global_tokens = globals;
      config.n_kv_heads = 1;
      const auto model = random_model(config);
      const auto full = logits_of(*model, ids, nullptr);
      for (const std::int64_t prompt : {std::int64_t{1}, std::int64_t{2}, T - 1, T, window, window + 1}) {
        Reader reader(*model);
        std::int64_t at = 0;
        const auto check_next = [&](std::int64_t n) {
          const auto last = reader.read(std::span(ids).subspan(static_cast<std::size_t>(at), n));
          at += n;
          CHECK(reference::relative_error(last, cut(full, (at - 1) * V, at * V)) < tolerance);
        };
        for (const std::int64_t n :
             {prompt, std::int64_t{1}, std::int64_t{600}, std::int64_t{1}, std::int64_t{90}})
          check_next(n);
        for (int i = 0; i < 100; ++i) check_next(1);
        CHECK(reader.length() == at);
      }
    }
  ModelConfig config = small_config(NormPlacement::pre, PositionKind::rope, V, T);
  config.attention = AttentionKind::sliding_window;
  config.window = 5;
  CHECK(KVCache(config, 1, 1'000'000, Type::f32).capacity() == 4 + KVCache::longest_part);
  CHECK(KVCache(config, 1, T, Type::f32).capacity() == T);
  config.global_tokens = 7;
  CHECK(KVCache(config, 1, 1'000'000, Type::f32).capacity() == 7 + 4 + KVCache::longest_part);
}

TEST_CASE("a window does not lift the limit of a table of positions") {
  ModelConfig config = small_config(NormPlacement::pre, PositionKind::learned, 11, 8);
  config.attention = AttentionKind::sliding_window;
  config.window = 3;
  const auto model = random_model(config);
  Reader reader(*model);
  CHECK(reader.limit() == 8);
  const Ids ids = some_ids(8, 11);
  const auto full = logits_of(*model, ids, nullptr);
  reader.read(std::span(ids).first(7));
  CHECK(reference::relative_error(reader.read(std::span(ids).subspan(7)), cut(full, 7 * 11, 8 * 11)) <
        tolerance);
}

}  // namespace
}  // namespace quern
