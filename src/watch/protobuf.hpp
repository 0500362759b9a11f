// As much of the protocol buffers' wire format as event files need: a message is its fields one after the
// other, each a key (number * 8 + wire type) and a value.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace quern {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

class ProtobufMessage {
 public:
  ProtobufMessage& varint(int field, std::uint64_t value) {
    key(field, 0);
    append_varint(value);
    return *this;
  }
  ProtobufMessage& number(int field, double value) {
    key(field, 1);
    append(&value, sizeof value);
    return *this;
  }
  ProtobufMessage& number(int field, float value) {
    key(field, 5);
    append(&value, sizeof value);
    return *this;
  }
  ProtobufMessage& bytes(int field, std::string_view value) {
    key(field, 2);
    append_varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtobufMessage& message(int field, const ProtobufMessage& value) { return bytes(field, value.bytes_); }
  /// A repeated double.
  ProtobufMessage& packed(int field, std::span<const double> values) {
    key(field, 2);
    append_varint(values.size_bytes());
    append(values.data(), values.size_bytes());
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire_type) { append_varint(static_cast<std::uint64_t>(field * 8 + wire_type)); }
  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void append(const void* data, std::size_t size) { bytes_.append(static_cast<const char*>(data), size); }

  std::string bytes_;
};

}  // namespace quern
