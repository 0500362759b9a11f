// The header of a safetensors file: names, types, shapes and places of its tensors, and how strictly they are
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::safetensors {

// What a reader accepts and a writer keeps to.
inline constexpr std::uint64_t kLengthBytes = 8;  // of the header's length
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxTensors = 100'000;
inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::size_t kMaxNameBytes = 512;
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// In the format's order of increasing alignment, which is the order of the writer.
enum class DType : std::uint8_t {
  BOOL,
  F4,
  F6_E2M3,
  F6_E3M2,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  F8_E8M0,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  C64,
  F64,
  I64,
  U64
};

/// "F32", "BF16", … as in the header.
std::string_view name(DType dtype);
/// Bits of one element.
int bits(DType dtype);

/// "F32 [2, 3]", for messages.
std::string describe(DType dtype, const std::vector<std::int64_t>& shape);
/// Bytes of a tensor; nullopt when the product overflows or is no whole number of bytes.
std::optional<std::uint64_t> byte_count(DType dtype, const std::vector<std::int64_t>& shape);
/// Whether a name, valid UTF-8, is neither empty nor too long and holds no control character (C0, DEL, C1).
bool is_good_name(std::string_view name);

/// A tensor of a file. [begin, end) counts from the start of the file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t bytes() const { return end - begin; }
};

using Metadata = std::map<std::string, std::string>;

struct Header {
  std::vector<TensorInfo> tensors;  // by position
  Metadata metadata;
};

/// Parses the header's JSON and holds it against the `data_bytes` bytes that follow it in the file. Throws
/// ErrorKind::file as Reader says; `path` stands in messages.
Header parse_header(const std::string& json, std::uint64_t data_bytes, const std::filesystem::path& path);

[[noreturn]] void fail_damaged(const std::filesystem::path& path, const std::string& what);

}  // namespace quern::safetensors
