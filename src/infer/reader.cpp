#include "quern/infer/reader.hpp"

#include <algorithm>
#include <cstring>

namespace quern {
namespace {

std::unique_ptr<KVCache> make_cache(const Model& model, std::int64_t capacity) {
  return std::make_unique<KVCache>(model.config(), 1, capacity, model.parameters().compute());
}

void copy_rows(const Tensor& to, const Tensor& from, std::int64_t rows) {  // (1,capacity,Hkv*D)
  std::memcpy(to.data, from.data, static_cast<std::size_t>(rows * from.stride[1] * size_of(from.type)));
}

}  // namespace

Reader::Reader(const Model& model)
    : model_(model), cache_(make_cache(model, model.config().context_length)) {}

std::optional<std::int64_t> Reader::limit() const {
  if (!has_table(model_.config().position)) return std::nullopt;
  return model_.config().context_length;
}

std::span<const float> Reader::read(std::span<const std::int32_t> ids) {
  QUERN_CHECK(!ids.empty());
  make_room(static_cast<std::int64_t>(ids.size()));
  while (!ids.empty()) {
    const auto n = std::min<std::size_t>(ids.size(), KVCache::longest_part);
    Tape tape(workspace_, Mode::infer);
    const Tensor logits =
        model_.last_logits(tape, {ids.data(), 1, static_cast<std::int64_t>(n)}, cache_.get())
            .value();  // (1,1,V)
    ids = ids.subspan(n);
    if (ids.empty()) logits_.assign(logits.f32(), logits.f32() + logits.last());
  }
  return logits_;
}

void Reader::make_room(std::int64_t tokens) {
  const std::int64_t wanted = length() + tokens;
  if (cache_->rolls() || wanted <= cache_->capacity()) return;
  QUERN_CHECK(!limit(), wanted, cache_->capacity());
  auto larger = make_cache(model_, std::max(wanted, 2 * cache_->capacity()));
  for (std::size_t i = 0; i < static_cast<std::size_t>(model_.config().n_layers); ++i) {
    const LayerCache& from = *cache_->layer(i);
    LayerCache& to = *larger->layer(i);
    copy_rows(to.keys, from.keys, from.length);  // only a cache that rolls has dropped any
    copy_rows(to.values, from.values, from.length);
    to.length = from.length;
  }
  cache_ = std::move(larger);
}

}  // namespace quern
