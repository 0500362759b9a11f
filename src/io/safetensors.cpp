#include "quern/io/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/crc32c.hpp"

namespace quern::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

}  // namespace

Writer::Writer(std::vector<TensorEntry> tensors, Metadata metadata) : tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  metadata["format"] = "pt";
  std::string json = "{\"__metadata__\":" + nlohmann::json(metadata).dump();
  std::uint64_t position = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorEntry& tensor = tensors_[i];
    QUERN_CHECK(is_good_name(tensor.name) && tensor.name != kMetadataKey, tensor.name);
    QUERN_CHECK(tensor.shape.size() <= kMaxRank, tensor.name);
    const std::optional<std::uint64_t> bytes = byte_count(tensor.dtype, tensor.shape);
    QUERN_CHECK(bytes.has_value(), tensor.name);
    const std::uint64_t begin = std::exchange(position, position + *bytes);
    json += "," + nlohmann::json(tensor.name).dump() + ":{\"dtype\":\"" + std::string(name(tensor.dtype)) +
            "\",\"shape\":" + nlohmann::json(tensor.shape).dump() + ",\"data_offsets\":[" +
            std::to_string(begin) + "," + std::to_string(position) + "]}";
  }
  std::vector<std::string_view> names;
  for (const TensorEntry& tensor : tensors_) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  QUERN_CHECK(twice == names.end(), *twice);
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = json.size();
  QUERN_CHECK(length <= kMaxHeaderBytes && tensors_.size() <= kMaxTensors, length, tensors_.size());
  header_.assign(reinterpret_cast<const char*>(&length), sizeof length);
  header_ += json;
  size_ = header_.size() + position;
}

Checksums Writer::write(File& file) const {
  Checksums sums;
  file.write(header_);
  sums.file = crc32c(header_.data(), header_.size());
  for (const TensorEntry& tensor : tensors_) {
    const auto* bytes = static_cast<const char*>(tensor.data);
    const std::uint64_t total = *byte_count(tensor.dtype, tensor.shape);
    std::uint32_t sum = 0;
    for (std::uint64_t done = 0; done < total; done += kChunkBytes) {
      const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, total - done));
      sum = crc32c(bytes + done, part, sum);
      file.write(bytes + done, part);
    }
    sums.tensors[tensor.name] = sum;
    sums.file = crc32c_combine(sums.file, sum, total);
  }
  return sums;
}

Reader::Reader(Files& files, const std::filesystem::path& path, Links links)
    : file_(files.open_read(path, links)), file_size_(file_.size()) {
  std::uint64_t length = 0;
  if (file_size_ < kLengthBytes) {
    fail_damaged(path, "it has " + std::to_string(file_size_) + " bytes, the header's length alone takes 8");
  }
  file_.read_at(0, &length, sizeof length);
  if (length > kMaxHeaderBytes) {
    fail_damaged(path, "its header would have " + std::to_string(length) + " bytes, more than 100000000");
  }
  if (length > file_size_ - kLengthBytes) {
    fail_damaged(path, "its header would have " + std::to_string(length) + " bytes, the file has " +
                           std::to_string(file_size_));
  }
  data_begin_ = kLengthBytes + length;
  std::string json(length, '\0');
  file_.read_at(kLengthBytes, json.data(), json.size());
  Header header = parse_header(json, file_size_ - data_begin_, path);
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
}

const TensorInfo* Reader::find(std::string_view wanted) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), wanted,
                                   [&](std::size_t i, auto& value) { return tensors_[i].name < value; });
  if (at == by_name_.end() || tensors_[*at].name != wanted) return nullptr;
  return &tensors_[*at];
}

void Reader::read(const TensorInfo& tensor, void* data, std::uint64_t bytes) const {
  QUERN_CHECK(bytes == tensor.bytes(), tensor.name, bytes, tensor.bytes());
  file_.read_at(tensor.begin, data, bytes);
}

void Reader::read_tensor(std::string_view wanted, void* data, std::uint64_t bytes) const {
  const TensorInfo* tensor = find(wanted);
  QUERN_CHECK(tensor != nullptr, wanted);
  read(*tensor, data, bytes);
}

void Reader::read_part(const TensorInfo& tensor, std::uint64_t offset, void* data,
                       std::uint64_t bytes) const {
  QUERN_CHECK(offset <= tensor.bytes() && bytes <= tensor.bytes() - offset, tensor.name, offset, bytes);
  file_.read_at(tensor.begin + offset, data, bytes);
}

void Reader::require(std::span<const TensorTarget> targets) const {
  std::vector<std::string> problems;
  std::vector<std::string_view> wanted;
  for (const TensorTarget& target : targets) {
    wanted.push_back(target.name);
    const TensorInfo* tensor = find(target.name);
    if (tensor == nullptr) {
      problems.push_back("\"" + target.name + "\" is missing");
    } else if (tensor->dtype != target.dtype || tensor->shape != target.shape) {
      problems.push_back("\"" + target.name + "\" is " + describe(tensor->dtype, tensor->shape) +
                         " where the model has " + describe(target.dtype, target.shape));
    }
  }
  std::sort(wanted.begin(), wanted.end());
  for (const std::size_t i : by_name_) {
    if (!std::binary_search(wanted.begin(), wanted.end(), std::string_view(tensors_[i].name))) {
      problems.push_back("\"" + tensors_[i].name + "\" is not expected");
    }
  }
  if (problems.empty()) return;
  constexpr std::size_t kShown = 5;
  std::string what = "its tensors do not fit: ";
  for (std::size_t i = 0; i < std::min(kShown, problems.size()); ++i)
    what += (i > 0 ? "; " : "") + problems[i];
  if (problems.size() > kShown) what += "; and " + std::to_string(problems.size() - kShown) + " more";
  throw Error(ErrorKind::file, what, {}, path().string());
}

Checksums Reader::checksums() const {
  Checksums sums;
  std::vector<char> buffer(std::min<std::uint64_t>(kChunkBytes, file_size_));
  const auto sum_of = [&](std::uint64_t begin, std::uint64_t end) {
    std::uint32_t sum = 0;
    for (std::uint64_t at = begin; at < end; at += buffer.size()) {
      const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - at));
      file_.read_at(at, buffer.data(), part);
      sum = crc32c(buffer.data(), part, sum);
    }
    return sum;
  };
  sums.file = sum_of(0, data_begin_);
  for (const TensorInfo& tensor : tensors_) {
    const std::uint32_t sum = sum_of(tensor.begin, tensor.end);
    sums.tensors[tensor.name] = sum;
    sums.file = crc32c_combine(sums.file, sum, tensor.bytes());
  }
  return sums;
}

}  // namespace quern::safetensors
