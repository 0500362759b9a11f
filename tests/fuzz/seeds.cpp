// Binary seeds are made, not kept: a repository holds what people read.
#include <algorithm>
#include <filesystem>

#include "../base/temporary_directory.hpp"
#include "../data/image_files.hpp"
#include "quern/base/files.hpp"
#include "quern/io/safetensors.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

std::vector<std::string> safetensors_files() {
  const std::vector<float> numbers = {0, -1.5F, 3, 1e30F};
  Files files;
  const TemporaryDirectory directory;
  File file = files.create(directory / "x");
  safetensors::Writer({{"blocks.0.w", safetensors::DType::F32, {2, 2}, numbers.data()},
                       {"blocks.1.w", safetensors::DType::BF16, {4}, numbers.data()},
                       {"mask", safetensors::DType::BOOL, {}, numbers.data()}},
                      {{"step", "20"}})
      .write(file);
  return {get(directory / "x"), std::string(8, '\0'), std::string(8, '\xFF')};
}

/// A pair of files as the target idx takes it.
std::string idx_pair(const std::string& images, const std::string& labels) {
  return static_cast<char>(labels.size()) + labels + images;
}

std::vector<std::string> idx_pairs() {
  const std::string labels = idx(kIdxLabels, {3}, {"\x02\x00\x04", 3});
  return {idx_pair(idx(kIdxImages, {3, 2, 1}, "abcdef"), labels),
          idx_pair(idx(kIdxImages, {~0U, ~0U, ~0U}, "abcdef"), labels)};
}

std::vector<std::string> images() {
  const unsigned char pixels[] = {0, 50, 100, 150, 200, 250, 1, 2, 3, 4, 5, 6};
  const unsigned char indices[] = {0, 1, 1, 0}, palette[] = {1, 2, 3, 4, 5, 6};
  return {png(3, 2, PNG_FORMAT_GRAY, pixels),     png(2, 2, PNG_FORMAT_RGB, pixels),
          png(1, 3, PNG_FORMAT_RGBA, pixels),     png(2, 2, PNG_FORMAT_RGB_COLORMAP, indices, palette),
          grey_16({0, 0x8040, 0xFFFF}),           std::string("P5 2 2 255\n\x00\x7F\xFE\xFF", 15),
          std::string("P6\n1 1\n7\n\x01\x02\x07")};
}

std::vector<std::string> pairs_of_files() {
  return {std::string("ein Haus\nzwei\n\0a house\ntwo\n", 27), std::string("eins\r\n\nzwei\0one\n\ntwo", 20),
          std::string("a\nb\n\0x\n", 7)};
}

}  // namespace

std::vector<std::string> seeds_of(const std::string& target) {
  std::vector<std::string> seeds;
  if (target == "safetensors") seeds = safetensors_files();
  if (target == "idx") seeds = idx_pairs();
  if (target == "image") seeds = images();
  if (target == "parallel") seeds = pairs_of_files();
  const std::filesystem::path folder = std::filesystem::path(QUERN_SOURCE_DIR) / "tests/fuzz/seeds" / target;
  if (!std::filesystem::exists(folder)) return seeds;
  for (const DirectoryEntry& entry : Files().list(folder)) seeds.push_back(get(folder / entry.name));
  return seeds;
}

}  // namespace quern::test
