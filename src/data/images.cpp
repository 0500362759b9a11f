#include "quern/data/images.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "dataset_parts.hpp"
#include "picture.hpp"
#include "quern/base/files.hpp"
#include "quern/base/suggest.hpp"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxPictureFile = 4 * kMaxPictureBytes;  // as text: three digits and a space
constexpr std::uint32_t kIdxImages = 0x803;                      // unsigned bytes in three dimensions
constexpr std::uint32_t kIdxLabels = 0x801;                      // … in one

[[noreturn]] void fail(const std::string& path, const std::string& what, const std::string& hint = {}) {
  throw Error(ErrorKind::file, what, hint, path);
}

/// An open IDX file whose header was read and whose size is what that says.
struct IdxFile {
  File file;
  std::vector<std::uint64_t> sides;
  std::uint64_t header = 0;  // bytes before the data
  std::uint64_t data = 0;    // bytes of the data
};

std::uint32_t big_endian(const unsigned char* b) {
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

IdxFile open_idx(Files& files, const std::string& path, std::uint32_t magic, const std::string& holds) {
  IdxFile idx{files.open_read(path), {}, 4 + 4 * (magic & 0xFF), 1};
  const std::uint64_t size = idx.file.size();
  std::vector<unsigned char> header(static_cast<std::size_t>(idx.header));
  if (size < header.size()) {
    fail(path,
         "the file has " + std::to_string(size) + " bytes, an IDX file of " + holds + " begins with " +
             std::to_string(header.size()),
         "fetch it again");
  }
  idx.file.read_at(0, header.data(), header.size());
  if (big_endian(header.data()) != magic) {
    const bool packed = header[0] == 0x1F && header[1] == 0x8B;
    fail(path, std::string(packed ? "a gzip file" : "no IDX file of " + holds),
         packed ? "unpack it with gunzip" : "it begins with the bytes 0 0 8 " + std::to_string(magic & 0xFF));
  }
  for (std::size_t at = 4; at < header.size(); at += 4) {
    const std::uint64_t side = big_endian(&header[at]);
    if (side == 0) fail(path, "the file holds no " + holds);
    idx.sides.push_back(side);
    // No product beyond the file's size is formed: three sides of 32 bits need not fit.
    idx.data = idx.data > size / side ? size + 1 : idx.data * side;
  }
  if (idx.header + idx.data != size) {
    fail(path,
         "the file has " + std::to_string(size) + " bytes, its header says " +
             (idx.data > size ? "more" : std::to_string(idx.header + idx.data)),
         "fetch it again");
  }
  return idx;
}

void check_memory(std::uint64_t bytes, std::uint64_t memory, const std::string& path) {
  if (bytes <= memory) return;
  fail(path,
       "the images need at least " + std::to_string(bytes) + " bytes of the machine's " +
           std::to_string(memory),
       "train on a part of them");
}

std::string size_text(std::int64_t width, std::int64_t height, std::int64_t channels) {
  return std::to_string(width) + " x " + std::to_string(height) + (channels == 1 ? " grey" : " in colour");
}

/// Appends a picture, which has to be like the set's first.
void append(ImageSet& set, const Picture& picture, std::int32_t label, const std::string& path,
            const std::string& first_path) {
  if (set.count == 0) {
    set.height = picture.height;
    set.width = picture.width;
    set.channels = picture.channels;
  }
  if (picture.height != set.height || picture.width != set.width || picture.channels != set.channels) {
    fail(path,
         "an image of " + size_text(picture.width, picture.height, picture.channels) + ", the first is " +
             size_text(set.width, set.height, set.channels) + ": " + printable(first_path),
         "all images of a folder have one size and the same channels");
  }
  set.pixels.insert(set.pixels.end(), picture.pixels.begin(), picture.pixels.end());
  set.labels.push_back(label);
  ++set.count;
}

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return ending == ".png" || ending == ".pgm" || ending == ".ppm";
}

/// The names in a folder that do not begin with a dot, in order.
std::vector<std::string> names_in(const Files& files, const fs::path& folder) {
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : files.list(folder))
    if (!entry.name.starts_with('.')) names.push_back(entry.name);
  return names;
}

}  // namespace

ImageSet read_idx(const std::string& images, const std::string& labels, std::uint64_t memory) {
  Files files;
  const IdxFile pictures = open_idx(files, images, kIdxImages, "images");
  const IdxFile classes = open_idx(files, labels, kIdxLabels, "labels");
  if (pictures.sides[0] != classes.sides[0]) {
    fail(labels,
         std::to_string(classes.sides[0]) + " labels for the " + std::to_string(pictures.sides[0]) +
             " images of " + printable(images),
         "the two files belong together");
  }
  check_memory(pictures.data, memory, images);
  ImageSet set{.count = static_cast<std::int64_t>(pictures.sides[0]),
               .height = static_cast<std::int64_t>(pictures.sides[1]),
               .width = static_cast<std::int64_t>(pictures.sides[2]),
               .channels = 1,
               .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(pictures.data)),
               .labels = {},
               .names = {}};
  pictures.file.read_at(pictures.header, set.pixels.data(), set.pixels.size());
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(classes.data));
  classes.file.read_at(classes.header, bytes.data(), bytes.size());
  set.labels.assign(bytes.begin(), bytes.end());
  const int largest = *std::max_element(bytes.begin(), bytes.end());
  for (int label = 0; label <= largest; ++label) set.names.push_back(std::to_string(label));
  return set;
}

ImageSet read_image_folder(const std::string& folder, std::uint64_t memory) {
  Files files;
  ImageSet set;
  std::string first_path;
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    fail(folder, "is no folder", "a folder of images has a sub-folder for each label");
  }
  std::size_t label_bytes = 0;
  for (const std::string& name : names_in(files, folder)) {
    const fs::path below = fs::path(folder) / name;
    if (!fs::is_directory(below, ignored)) {
      if (is_picture(below))
        fail(below.string(), "an image outside a sub-folder", "its label is the sub-folder's name");
      continue;  // a README beside the labels
    }
    if (first_non_utf8(name) < name.size())
      fail(folder, "the sub-folder " + in_quotes(name) + " has a name that is not UTF-8",
           "rename it: it is the label's name");
    check_labels(set.names.size() + 1, label_bytes += name.size(), folder);
    const auto label = static_cast<std::int32_t>(set.names.size());
    const std::vector<std::string> pictures = names_in(files, below);
    if (pictures.empty()) fail(below.string(), "a label without images");
    for (const std::string& picture : pictures) {
      const std::string path = (below / picture).string();
      if (!is_picture(path))
        fail(path, "no PNG, PGM or PPM by its name", "images end with .png, .pgm or .ppm");
      if (set.count == 0) first_path = path;
      append(set, decode_picture(read_file(files, path, kMaxPictureFile), path), label, path, first_path);
      check_memory(2 * set.pixels.size(), memory, folder);  // a vector that grows exists twice
    }
    set.names.push_back(name);
  }
  if (set.names.size() < 2) {
    fail(folder,
         std::to_string(set.names.size()) + (set.names.size() == 1 ? " label" : " labels") +
             " where at least 2 are needed",
         "a folder of images has a sub-folder for each label");
  }
  return set;
}

ImageSet read_image(const std::string& path) {
  Files files;
  ImageSet set;
  append(set, decode_picture(read_file(files, path, kMaxPictureFile), path), 0, path, path);
  return set;
}

}  // namespace quern
