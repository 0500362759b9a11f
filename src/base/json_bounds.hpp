// What keeps a JSON tree small: how much a text may hold, and how large each list and object will be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace quern {

inline constexpr std::size_t max_depth = 64;

/// A tree takes up to 60 bytes for each of its values and keys, so how many a text may hold bounds the
/// memory. A value that means something takes six bytes and more; the rest is for short texts.
constexpr std::size_t max_values(std::size_t bytes) { return 4096 + bytes / 6; }

/// The types of nlohmann's events.
class JsonEvents {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;
};

/// Counts the members of each list and object, in the order in which they open, so that the tree is built
/// without growing. Ends where the text is wrong or holds too much; Builder says so.
class MemberCounter : public JsonEvents {
 public:
  explicit MemberCounter(std::size_t most) : most_(most) {}

  bool null() { return value(); }
  bool boolean(bool) { return value(); }
  bool number_integer(number_integer_t) { return value(); }
  bool number_unsigned(number_unsigned_t) { return value(); }
  bool number_float(number_float_t, const string_t&) { return value(); }
  bool string(string_t&) { return value(); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(); }
  bool start_array(std::size_t) { return open(); }
  bool key(string_t&) { return ++seen_ <= most_; }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

  std::vector<std::uint32_t> members;

 private:
  bool value() {
    if (!open_.empty()) ++members[open_.back()];
    return ++seen_ <= most_;
  }
  bool open() {
    const bool fits = value() && open_.size() < max_depth;
    open_.push_back(members.size());
    members.push_back(0);
    return fits;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::size_t most_, seen_ = 0;
  std::vector<std::size_t> open_;
};

}  // namespace quern
