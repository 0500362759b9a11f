// The safetensors format: u64 header length (little endian) | header, a JSON object | data, without holes.
// Writer and strict reader; the layout and its rules are those of the format's reference implementation
// (github.com/huggingface/safetensors). A file of another origin is untrusted: its header is held against the
// size of the file before anything is allocated, and data is read by pread, never mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/files.hpp"
#include "quern/io/safetensors_header.hpp"

namespace quern::safetensors {

/// A tensor to be written; `data` is contiguous, C order, and holds product(shape) elements.
struct TensorEntry {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
};

/// A tensor to be filled by a reader.
struct TensorTarget {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  void* data = nullptr;
};

struct Checksums {
  std::uint32_t file = 0;                        // CRC-32C of the whole file
  std::map<std::string, std::uint32_t> tensors;  // CRC-32C of each tensor's bytes
};

/// Lays tensors out as the reference writer does: by (alignment descending, name), header padded with spaces
/// to a multiple of 8, metadata {"format": "pt"} always present. Names must be distinct (QUERN_CHECK).
class Writer {
 public:
  explicit Writer(std::vector<TensorEntry> tensors, Metadata metadata = {});

  /// Bytes of the whole file.
  std::uint64_t size() const { return size_; }

  /// Writes the whole file from the position of `file` on.
  Checksums write(File& file) const;

 private:
  std::vector<TensorEntry> tensors_;
  std::string header_;  // with its length before it
  std::uint64_t size_ = 0;
};

/// Opens and checks a file. Throws ErrorKind::file, with path and byte offset, for whatever is not exactly
/// right: length, JSON, duplicate keys, numbers that are not plain unsigned integers, unknown dtypes, holes,
/// overlaps, sizes that disagree or overflow, bytes left over, more than 100,000 tensors, 8 dimensions or
/// 512-byte names.
class Reader {
 public:
  Reader(Files& files, const std::filesystem::path& path, Links links = Links::follow);

  /// By position in the file.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  /// Null when there is none.
  const TensorInfo* find(std::string_view name) const;

  /// The bytes of one tensor; `bytes` must be its size (QUERN_CHECK).
  void read(const TensorInfo& tensor, void* data, std::uint64_t bytes) const;
  void read_tensor(std::string_view name, void* data, std::uint64_t bytes) const;
  /// `bytes` bytes of one tensor from its byte `offset` on, all within it (QUERN_CHECK).
  void read_part(const TensorInfo& tensor, std::uint64_t offset, void* data, std::uint64_t bytes) const;

  /// ErrorKind::file unless the file holds exactly the names, dtypes and shapes of `targets`; the message
  /// lists what is missing, unexpected or of another shape.
  void require(std::span<const TensorTarget> targets) const;

  /// CRC-32C of the whole file and of each tensor, in one pass.
  Checksums checksums() const;

  const std::filesystem::path& path() const { return file_.path(); }
  std::uint64_t file_size() const { return file_size_; }

 private:
  File file_;
  std::uint64_t file_size_ = 0;
  std::uint64_t data_begin_ = 0;
  std::vector<TensorInfo> tensors_;
  std::vector<std::size_t> by_name_;  // indices into tensors_
  Metadata metadata_;
};

}  // namespace quern::safetensors
