#include "quern/data/images.hpp"

#include <png.h>

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "../base/temporary_directory.hpp"
#include "catch.hpp"
#include "error_of.hpp"
#include "image_files.hpp"

using namespace quern;
using test::big_endian;
using test::error_of;
using test::grey_16;
using test::idx;
using test::png;
using test::png_checksum;
namespace fs = std::filesystem;

namespace {

bool says(const Error& error, const std::string& part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

const std::uint8_t grey[6] = {0, 50, 100, 150, 200, 255};  // 3 x 2

struct Folder : test::TemporaryDirectory {
  void add(const std::string& name, const std::string& bytes) const {
    fs::create_directories((path() / name).parent_path());
    test::put(path() / name, bytes);
  }
  ImageSet read() const { return read_image_folder(path().string()); }
  /// What is said about a single file beside a good one.
  Error refusal(const std::string& bytes, const std::string& name = "x.png") const {
    add("a/0.png", png(3, 2, PNG_FORMAT_GRAY, grey));
    add("b/" + name, bytes);
    const Error error = error_of([&] { read(); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place == (path() / "b" / name).string());
    fs::remove(path() / "b" / name);
    return error;
  }
};

}  // namespace

TEST_CASE("IDX files become images and labels", "[data]") {
  const test::TemporaryDirectory scratch;
  const std::string images = (scratch / "images").string(), labels = (scratch / "labels").string();
  test::put(images, idx(0x803, {3, 1, 2}, {"\x00\x01\x02\x03\xFE\xFF", 6}));
  test::put(labels, idx(0x801, {3}, {"\x02\x00\x04", 3}));
  const ImageSet set = read_idx(images, labels);
  CHECK(set.count == 3);
  CHECK(set.height == 1);
  CHECK(set.width == 2);
  CHECK(set.channels == 1);
  CHECK(set.pixels == std::vector<std::uint8_t>{0, 1, 2, 3, 254, 255});
  CHECK(set.labels == std::vector<std::int32_t>{2, 0, 4});
  CHECK(set.names == std::vector<std::string>{"0", "1", "2", "3", "4"});
  CHECK_NOTHROW(read_idx(images, labels, 6));
  CHECK(says(error_of([&] { read_idx(images, labels, 5); }), "at least 6 bytes of the machine's 5"));
}

TEST_CASE("an IDX file cut anywhere, or with anything behind it, is refused", "[data]") {
  const test::TemporaryDirectory scratch;
  const std::string images = (scratch / "images").string(), labels = (scratch / "labels").string();
  const std::string good_images = idx(0x803, {3, 1, 2}, "abcdef"), good_labels = idx(0x801, {3}, "abc");
  test::put(labels, good_labels);
  const auto refused = [&](const std::string& file, const std::string& bytes) {
    test::put(file, bytes);
    const Error error = error_of([&] { read_idx(images, labels); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place == file);
    return error;
  };
  for (std::size_t size = 0; size < good_images.size(); ++size) refused(images, good_images.substr(0, size));
  CHECK(says(refused(images, good_images + "g"), "has 23 bytes, its header says 22"));
  test::put(images, good_images);
  for (std::size_t size = 0; size < good_labels.size(); ++size) refused(labels, good_labels.substr(0, size));
  CHECK(says(refused(labels, good_labels + "d"), "has 12 bytes, its header says 11"));

  CHECK(says(refused(labels, idx(0x801, {2}, "ab")), "2 labels for the 3 images"));
  CHECK(says(refused(labels, good_images), "no IDX file of labels"));
  test::put(labels, good_labels);
  CHECK(says(refused(images, good_labels), "has 11 bytes, an IDX file of images begins with 16"));
  CHECK(says(refused(images, idx(0x803, {0, 28, 28}, "")), "holds no images"));
  CHECK(says(refused(images, "\x1F\x8B" + std::string(30, 'x')), "gzip"));
  // Sides whose product is 2^96, 2^64 (0 in 64 bits), and 6 modulo 2^64: nothing of it is allocated.
  CHECK(says(refused(images, idx(0x803, {~0U, ~0U, ~0U}, "abcdef")), "its header says more"));
  CHECK(says(refused(images, idx(0x803, {1U << 31, 1U << 31, 4}, "abcdef")), "its header says more"));
  CHECK(says(refused(images, idx(0x803, {3, 1U << 31, 1U << 31}, "abcdef")), "its header says more"));
}

TEST_CASE("a folder's sub-folders are labels", "[data]") {
  const Folder folder;
  folder.add("dog/2.png", png(3, 2, PNG_FORMAT_GRAY, grey));
  folder.add("dog/10.pgm", "P5 3 2 255\n" + std::string(reinterpret_cast<const char*>(grey), 6));
  folder.add("cat/a.PGM", "P2\n# a comment\n3 2 # another\n5\n0 1 2\n3 4 5\n");
  folder.add("cat/.hidden", "x");
  folder.add("README.txt", "about these images");
  const ImageSet set = folder.read();
  CHECK(set.names == std::vector<std::string>{"cat", "dog"});
  CHECK(set.labels == std::vector<std::int32_t>{0, 1, 1});  // cat/a.PGM, dog/10.pgm, dog/2.png
  CHECK(set.count == 3);
  CHECK(set.height == 2);
  CHECK(set.width == 3);
  CHECK(set.channels == 1);
  CHECK(set.pixels == std::vector<std::uint8_t>{0, 51, 102, 153, 204, 255, 0, 50, 100, 150, 200, 255, 0, 50,
                                                100, 150, 200, 255});
}

TEST_CASE("colour, palettes and 16 bits are read", "[data]") {
  const std::uint8_t rgb[6] = {1, 2, 3, 250, 251, 252};  // 2 x 1
  const Folder folder;
  folder.add("a/1.png", png(2, 1, PNG_FORMAT_RGB, rgb));
  folder.add("b/1.ppm", "P6\n2 1\n255\n" + std::string(reinterpret_cast<const char*>(rgb), 6));
  folder.add("b/2.ppm", "P3 2 1 255 1 2 3 250 251 252");
  const ImageSet set = folder.read();
  CHECK(set.channels == 3);
  CHECK(set.pixels ==
        std::vector<std::uint8_t>{1, 2, 3, 250, 251, 252, 1, 2, 3, 250, 251, 252, 1, 2, 3, 250, 251, 252});

  const Folder deep;  // without a word on its gamma, 16 bits mean what 8 bits do: round(x / 257)
  deep.add("a/1.png", grey_16({0, 0x8040, 0xFFFF}));
  deep.add("b/1.png", grey_16({257, 12 * 257 + 128, 12 * 257 + 129}));
  CHECK(deep.read().pixels == std::vector<std::uint8_t>{0, 128, 255, 1, 12, 13});

  const std::uint8_t indices[4] = {1, 0, 1, 1}, palette[6] = {9, 8, 7, 200, 100, 50};
  const Folder indexed;
  indexed.add("a/1.png", png(2, 2, PNG_FORMAT_RGB_COLORMAP, indices, palette));
  indexed.add("b/1.png", png(2, 2, PNG_FORMAT_RGB_COLORMAP, indices, palette));
  const std::vector<std::uint8_t> pixels = indexed.read().pixels;
  CHECK(std::vector<std::uint8_t>(pixels.begin(), pixels.begin() + 6) ==
        std::vector<std::uint8_t>{200, 100, 50, 9, 8, 7});
}

TEST_CASE("a PNG cut anywhere is refused, one with a changed byte never crashes", "[data]") {
  const Folder folder;
  std::vector<std::uint8_t> pixels(16 * 16 * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * i / 7);
  const std::string good = png(16, 16, PNG_FORMAT_RGB, pixels.data());
  for (std::size_t size = 0; size < good.size(); ++size) folder.refusal(good.substr(0, size));
  folder.add("a/0.png", good);
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      folder.add("b/0.png", bytes);
      try {
        folder.read();
      } catch (const Error& error) {
        CHECK(error.kind == ErrorKind::file);
        ++refused;
      }
    }
  }
  CHECK(refused > static_cast<int>(2 * good.size()));  // checksums find nearly all
}

TEST_CASE("a picture that is none, too large or unlike the others is named", "[data]") {
  const Folder folder;
  const std::uint8_t rgba[24] = {};
  CHECK(says(folder.refusal(png(2, 2, PNG_FORMAT_GRAY, grey)),
             "an image of 2 x 2 grey, the first is 3 x 2 grey: " + (folder / "a/0.png").string()));
  CHECK(says(folder.refusal(png(3, 2, PNG_FORMAT_RGB, rgba)), "3 x 2 in colour, the first is 3 x 2 grey"));
  CHECK(says(folder.refusal(png(3, 2, PNG_FORMAT_RGBA, rgba)), "alpha channel"));
  CHECK(says(folder.refusal("GIF89a"), "no PNG, PGM or PPM"));
  CHECK(says(folder.refusal(""), "no PNG, PGM or PPM"));
  CHECK(says(folder.refusal("x", "x.jpg"), "no PNG, PGM or PPM by its name"));

  const std::vector<std::string> damaged = {"P5",
                                            "P5 3",
                                            "P5 3 2",
                                            "P5 3 2 255",
                                            "P5 3 2 255\nabcde",
                                            "P5 3 2 255\nabcdefg",
                                            "P5 3 2 255abcdef",
                                            "P5 0 2 255\n",
                                            "P5 3 -2 255\nabcdef",
                                            "P5 3 2 0\nabcdef",
                                            "P5 3 2 256\nabcdef",
                                            "P5 3 2 65536\nabcdef",
                                            "P5 3 2 96\nabcdef",
                                            "P5 # no end",
                                            "P2 3 2 255 1 2 3 4 5",
                                            "P2 3 2 9 1 2 3 4 5 10",
                                            "P2 3 2 9 1 2 3 4 5 6 7",
                                            "P2 3 2 9 1 2 3 4 5 x",
                                            "P6 3 2 255\nabcdef",
                                            "P5 99999999999999999999 2 255\na"};
  for (const std::string& bytes : damaged) {
    INFO(bytes);
    folder.refusal(bytes, "x.pgm");
  }
  for (const std::string size : {"67108864 67108864", "8192 8193", "67108865 1", "1 67108865"}) {
    INFO(size);
    folder.refusal("P5 " + size + " 255\nabc", "x.pgm");
  }
  std::string huge = png(3, 2, PNG_FORMAT_GRAY, grey);  // its header then says 65,536 pixels each way
  huge.replace(16, 8, big_endian(65536) + big_endian(65536));
  folder.refusal(huge);
  huge.replace(16, 8, big_endian(8000) + big_endian(8000));
  huge.replace(29, 4, big_endian(png_checksum(huge.substr(12, 17))));  // so that the header is believed
  CHECK(says(folder.refusal(huge), "more pixels than the file can hold"));
  CHECK(says(folder.refusal("P3 4000 5000 255 1", "x.ppm"), "its header says 60000000 numbers"));
}

TEST_CASE("a folder without two labels of images is refused", "[data]") {
  const Folder folder;
  CHECK(says(error_of([&] { folder.read(); }), "0 labels where at least 2 are needed"));
  folder.add("a/0.png", png(3, 2, PNG_FORMAT_GRAY, grey));
  CHECK(says(error_of([&] { folder.read(); }), "1 label where"));
  fs::create_directory(folder / "b");
  CHECK(says(error_of([&] { folder.read(); }), "a label without images"));
  folder.add("b/1.png", png(3, 2, PNG_FORMAT_GRAY, grey));
  CHECK(folder.read().count == 2);
  CHECK(says(error_of([&] { read_image_folder(folder.path().string(), 20); }), "at least 24 bytes"));
  folder.add("2.png", png(3, 2, PNG_FORMAT_GRAY, grey));
  CHECK(says(error_of([&] { folder.read(); }), "an image outside a sub-folder"));
  CHECK(says(error_of([&] { read_image_folder((folder / "2.png").string()); }), "is no folder"));
  CHECK(error_of([&] { read_image_folder((folder / "none").string()); }).kind == ErrorKind::file);
}

TEST_CASE("a label that is not UTF-8 is refused by its name, made safe to print", "[data]") {
  const Folder folder;
  folder.add("a/0.png", png(3, 2, PNG_FORMAT_GRAY, grey));
  folder.add("\xFF\x1B/0.png", png(3, 2, PNG_FORMAT_GRAY, grey));
  const Error error = error_of([&] { folder.read(); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(std::string(error.what()) == "the sub-folder \"\\xff\\x1b\" has a name that is not UTF-8");
  CHECK(error.place == folder.path().string());
}

TEST_CASE("a folder with more labels than a run can hold is refused", "[data]") {
  const Folder folder;
  const std::string picture = png(3, 2, PNG_FORMAT_GRAY, grey), long_name(245, 'n');
  // 8,400 names of 250 bytes are more than 2 MiB.
  for (int i = 0; i < 8400; ++i) folder.add(long_name + std::to_string(10000 + i) + "/0.png", picture);
  const Error error = error_of([&] { folder.read(); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(says(error, "more than 2097152 bytes of labels"));
}
