// A long row of token ids, kept in two bytes each where the vocabulary allows it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "quern/base/check.hpp"

namespace quern {

/// A view on consecutive tokens; copying it copies no token. It may know where documents begin.
class TokenView {
 public:
  TokenView() = default;
  TokenView(std::span<const std::uint16_t> tokens) : tokens_(tokens) {}
  TokenView(std::span<const std::int32_t> tokens) : tokens_(tokens) {}

  std::int64_t size() const {
    return std::visit([](const auto& t) { return static_cast<std::int64_t>(t.size()); }, tokens_);
  }

  std::int32_t operator[](std::int64_t i) const {
    std::int32_t id = 0;
    copy(i, 1, &id);
    return id;
  }

  /// The tokens [first, first + count).
  TokenView part(std::int64_t first, std::int64_t count) const {
    check(first, count);
    TokenView part = std::visit(
        [&](const auto& t) {
          return TokenView(t.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
        },
        tokens_);
    part.documents_ = documents_;
    part.origin_ = origin_ + first;
    return part;
  }

  /// The same tokens as documents, which begin at these places, in order; the first begins at 0.
  TokenView with_documents(std::span<const std::int64_t> starts) const {
    TokenView packed = *this;
    packed.documents_ = starts;
    return packed;
  }
  bool has_documents() const { return !documents_.empty(); }

  /// For each of the tokens [first, first + count): where its document begins, counted from `first`; 0 for a
  /// document that begins before.
  void copy_starts(std::int64_t first, std::int64_t count, std::int32_t* out) const {
    check(first, count);
    auto next = std::upper_bound(documents_.begin(), documents_.end(), origin_ + first);
    std::int32_t start = 0;
    for (std::int64_t t = 0; t < count; ++t) {
      if (next != documents_.end() && *next == origin_ + first + t) {
        start = static_cast<std::int32_t>(t);
        ++next;
      }
      out[t] = start;
    }
  }

  /// Writes the tokens [first, first + count) to `out`.
  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const {
    check(first, count);
    std::visit([&](const auto& t) { std::copy_n(t.begin() + first, count, out); }, tokens_);
  }

 private:
  void check(std::int64_t first, std::int64_t count) const {
    QUERN_CHECK(first >= 0 && count >= 0 && first <= size() && count <= size() - first, first, count, size());
  }

  std::variant<std::span<const std::uint16_t>, std::span<const std::int32_t>> tokens_;
  std::span<const std::int64_t> documents_;  // of the whole that this is a part of
  std::int64_t origin_ = 0;                  // of this part in the whole
};

/// The tokens themselves: two bytes each for a vocabulary of at most 65,536, else four.
using TokenStore = std::variant<std::vector<std::uint16_t>, std::vector<std::int32_t>>;

/// All tokens of a store, valid as long as the store is not changed.
inline TokenView view(const TokenStore& store) {
  return std::visit([](const auto& tokens) { return TokenView(std::span(tokens)); }, store);
}

}  // namespace quern
