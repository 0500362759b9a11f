#include "quern/io/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/strict_json.hpp"

namespace quern::safetensors {
namespace {

struct DTypeRow {
  std::string_view name;
  int bits;
};
constexpr std::array<DTypeRow, 22> kDTypes{
    {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
     {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
     {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
     {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}};

std::optional<DType> dtype_of(std::string_view text) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

// Receives the header's JSON as it is parsed; offsets are left as in the file, relative to the data.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(const std::filesystem::path& path) : path_(path) {}

  std::vector<TensorInfo> tensors;
  Metadata metadata;

  bool key(string_t& text) override {
    switch (at_) {
      case At::top: return open_entry(text);
      case At::metadata:
        key_ = text;
        if (metadata.contains(key_)) fail("the key \"" + key_ + "\" of __metadata__ stands twice");
        return true;
      default: return open_field(text);
    }
  }

  bool start_object(std::size_t) override {
    if (at_ == At::outside) {
      at_ = At::top;
    } else if (at_ == At::top && entry_is_metadata_) {
      at_ = At::metadata;
    } else if (at_ == At::top) {
      at_ = At::tensor;
      field_ = Field::none;
      has_dtype_ = has_shape_ = has_offsets_ = false;
      offsets_.clear();
    } else {
      fail("an object where " + expected() + " is expected");
    }
    return true;
  }

  bool end_object() override {
    if (at_ == At::tensor) finish_tensor();
    at_ = at_ == At::top ? At::outside : At::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (at_ == At::tensor && field_ == Field::shape) {
      at_ = At::shape;
    } else if (at_ == At::tensor && field_ == Field::offsets) {
      at_ = At::offsets;
    } else {
      fail("a list where " + expected() + " is expected");
    }
    return true;
  }

  bool end_array() override {
    if (at_ == At::offsets && offsets_.size() != 2)
      fail("data_offsets of " + entry() + " has not two values");
    at_ = At::tensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (at_ == At::shape) {
      std::vector<std::int64_t>& shape = tensors.back().shape;
      if (shape.size() == kMaxRank)
        fail(entry() + " has more than " + std::to_string(kMaxRank) + " dimensions");
      if (!std::in_range<std::int64_t>(value)) fail("the shape of " + entry() + " overflows");
      shape.push_back(static_cast<std::int64_t>(value));
    } else if (at_ == At::offsets) {
      if (offsets_.size() == 2) fail("data_offsets of " + entry() + " has not two values");
      offsets_.push_back(value);
    } else {
      fail("a number where " + expected() + " is expected");
    }
    return true;
  }

  bool string(string_t& text) override {
    if (at_ == At::metadata) {
      metadata.emplace(key_, text);
    } else if (at_ == At::tensor && field_ == Field::dtype) {
      const std::optional<DType> dtype = dtype_of(text);
      if (!dtype) fail("the dtype of " + entry() + " is none that the format knows");
      tensors.back().dtype = *dtype;
    } else {
      fail("a string where " + expected() + " is expected");
    }
    return true;
  }

  bool null() override { fail("null where " + expected() + " is expected"); }
  bool boolean(bool) override { fail("true or false where " + expected() + " is expected"); }
  bool number_integer(number_integer_t) override {
    fail("a negative number where " + expected() + " is expected");
  }
  bool number_float(number_float_t, const string_t&) override {
    fail("a number with a fraction, an exponent or beyond 64 bits where " + expected() + " is expected");
  }
  bool binary(binary_t&) override { fail("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    // The parser counts the characters read, the offending one included.
    fail("the header is not JSON at byte " +
         std::to_string(kLengthBytes + (position > 0 ? position - 1 : 0)));
  }

 private:
  enum class At { outside, top, metadata, tensor, shape, offsets };
  enum class Field { none, dtype, shape, offsets };

  [[noreturn]] void fail(const std::string& what) const { fail_damaged(path_, what); }

  std::string entry() const {
    return tensors.empty() ? "a tensor" : "tensor \"" + tensors.back().name + "\"";
  }

  std::string expected() const {
    switch (at_) {
      case At::outside: return "the header's object";
      case At::top: return "an object";
      case At::metadata: return "a string of __metadata__";
      case At::shape: return "a size in the shape of " + entry();
      case At::offsets: return "a byte offset of " + entry();
      case At::tensor: break;
    }
    switch (field_) {
      case Field::dtype: return "the dtype of " + entry();
      case Field::shape: return "the shape of " + entry();
      default: return "data_offsets of " + entry();
    }
  }

  bool open_entry(const std::string& text) {
    entry_is_metadata_ = text == kMetadataKey;
    if (entry_is_metadata_) {
      if (std::exchange(has_metadata_, true)) fail("__metadata__ stands twice");
      return true;
    }
    if (!is_good_name(text)) {
      fail("tensor " + std::to_string(tensors.size() + 1) +
           " has a name that is empty, longer than 512 bytes or holds control characters");
    }
    if (tensors.size() == kMaxTensors) fail("more than " + std::to_string(kMaxTensors) + " tensors");
    tensors.push_back({text, DType::F32, {}, 0, 0});
    return true;
  }

  bool open_field(const std::string& text) {
    bool* seen = nullptr;
    if (text == "dtype") {
      field_ = Field::dtype;
      seen = &has_dtype_;
    } else if (text == "shape") {
      field_ = Field::shape;
      seen = &has_shape_;
    } else if (text == "data_offsets") {
      field_ = Field::offsets;
      seen = &has_offsets_;
    } else {
      fail(entry() + " has a field other than dtype, shape and data_offsets");
    }
    if (std::exchange(*seen, true)) fail("a field of " + entry() + " stands twice");
    return true;
  }

  void finish_tensor() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      fail(entry() + " lacks one of dtype, shape and data_offsets");
    }
    tensors.back().begin = offsets_[0];
    tensors.back().end = offsets_[1];
  }

  const std::filesystem::path& path_;
  At at_ = At::outside;
  Field field_ = Field::none;
  bool entry_is_metadata_ = false;
  bool has_metadata_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::string key_;
  std::vector<std::uint64_t> offsets_;
};

// Sorts by position and holds sizes and offsets against each other and against the data's `bytes`.
void check_layout(const std::filesystem::path& path, std::vector<TensorInfo>& tensors, std::uint64_t bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t position = 0;
  for (const TensorInfo& tensor : tensors) {
    const std::string who = "tensor \"" + tensor.name + "\"";
    if (tensor.begin != position || tensor.end < tensor.begin) {
      fail_damaged(path, who + " lies at bytes " + std::to_string(tensor.begin) + " to " +
                             std::to_string(tensor.end) + " of the data, where byte " +
                             std::to_string(position) + " comes next (hole, overlap or reversed offsets)");
    }
    const std::optional<std::uint64_t> needed = byte_count(tensor.dtype, tensor.shape);
    if (!needed || *needed != tensor.bytes()) {
      fail_damaged(path, who + " is " + describe(tensor.dtype, tensor.shape) + " but has " +
                             std::to_string(tensor.bytes()) + " bytes");
    }
    position = tensor.end;
  }
  if (position != bytes) {
    fail_damaged(path, "the header describes " + std::to_string(position) + " bytes of data, the file has " +
                           std::to_string(bytes));
  }
}

void check_names(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors) {
  std::vector<std::string_view> names;
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail_damaged(path, "tensor \"" + std::string(*twice) + "\" stands twice");
}

}  // namespace

std::string_view name(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }
int bits(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].bits; }

std::string describe(DType dtype, const std::vector<std::int64_t>& shape) {
  std::string text = std::string(name(dtype)) + " [";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::optional<std::uint64_t> byte_count(DType dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count)) return {};
  }
  if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(bits(dtype)), &count)) return {};
  if (count % 8 != 0) return {};
  return count / 8;
}

bool is_good_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    if (byte < 0x20 || byte == 0x7F) return false;
    if (byte == 0xC2 && i + 1 < name.size() && static_cast<unsigned char>(name[i + 1]) < 0xA0) return false;
  }
  return true;
}

void fail_damaged(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorKind::file, "not a valid safetensors file: " + what, {}, path.string());
}

Header parse_header(const std::string& json, std::uint64_t data_bytes, const std::filesystem::path& path) {
  // nlohmann/json would skip a byte order mark.
  const std::size_t first = json.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || json[first] != '{') {
    const std::uint64_t at = kLengthBytes + std::min(first, json.size());
    fail_damaged(path, "its header does not begin with '{' at byte " + std::to_string(at));
  }
  // … and takes a NUL for the end of the text.
  const std::size_t nul = json.find('\0');
  if (nul != std::string::npos) {
    fail_damaged(path, "the header is not JSON at byte " + std::to_string(kLengthBytes + nul));
  }
  HeaderHandler handler(path);
  nlohmann::json::sax_parse(with_plain_spaces(json, JsonComments::keep), &handler);
  check_layout(path, handler.tensors, data_bytes);
  check_names(path, handler.tensors);
  for (TensorInfo& tensor : handler.tensors) {
    tensor.begin += kLengthBytes + json.size();
    tensor.end += kLengthBytes + json.size();
  }
  return {std::move(handler.tensors), std::move(handler.metadata)};
}

}  // namespace quern::safetensors
