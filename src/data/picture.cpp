#include "picture.hpp"

#include <png.h>

#include <algorithm>

#include "quern/base/check.hpp"
#include "quern/base/suggest.hpp"

namespace quern {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

[[noreturn]] void fail(const std::string& name, const std::string& what, const std::string& hint = {}) {
  throw Error(ErrorKind::file, what, hint, name);
}

/// The bytes of a picture, whose sides may be anything that a header can say.
std::size_t bytes_of(std::int64_t width, std::int64_t height, std::int64_t channels,
                     const std::string& name) {
  if (width < 1 || height < 1) fail(name, "an image without a pixel");
  if (height > kMaxPictureBytes / width || height * width > kMaxPictureBytes / channels) {
    fail(name,
         "an image of " + std::to_string(width) + " x " + std::to_string(height) +
             " pixels is larger than 64 MiB",
         "make the images smaller");
  }
  return static_cast<std::size_t>(height * width * channels);
}

/// libpng's simplified interface, which frees what it holds whatever happens.
struct PngReader {
  png_image image{};
  PngReader() { image.version = PNG_IMAGE_VERSION; }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_image_free(&image); }

  [[noreturn]] void fail_with(const std::string& name) const {
    fail(name, "a damaged PNG: " + printable(image.message), "save or fetch it again");
  }
};

Picture decode_png(std::string_view bytes, const std::string& name) {
  PngReader reader;
  png_image& image = reader.image;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) reader.fail_with(name);
  if ((image.format & PNG_FORMAT_FLAG_ALPHA) != 0)
    fail(name, "a PNG with an alpha channel", "save it without transparency");
  const bool colour = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  Picture picture{image.height, image.width, colour ? 3 : 1, {}};
  const std::size_t size = bytes_of(picture.width, picture.height, picture.channels, name);
  // Nothing is allocated for what cannot come: deflate makes at most 1,032 bytes of one, of eight pixels
  // each.
  if (std::uint64_t{image.height} * image.width / (8 * 1032) > bytes.size())
    fail(name, "a damaged PNG: its header says more pixels than the file can hold", "save or fetch it again");
  picture.pixels.resize(size);
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16 bits mean what 8 bits do, unless the file says otherwise
  image.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  if (png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr) == 0) reader.fail_with(name);
  return picture;
}

/// The numbers of a PGM or PPM: text with white space and comments from # to the line's end between them.
class PnmReader {
 public:
  PnmReader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  /// The next number, at most `max`.
  std::int64_t number(std::int64_t max) {
    skip_space();
    const std::size_t begin = at_;
    std::int64_t value = 0;
    while (at_ < bytes_.size() && is_digit(bytes_[at_])) {
      value = 10 * value + (bytes_[at_++] - '0');
      if (value > max) refuse("a number above " + std::to_string(max));
    }
    if (at_ == begin) refuse(at_ == bytes_.size() ? "the end of the file" : "something else");
    return value;
  }

  /// The bytes behind the one white space that ends a header.
  std::string_view raster() {
    if (at_ == bytes_.size() || !is_space(bytes_[at_])) refuse("no white space");
    return bytes_.substr(at_ + 1);
  }

  void end() {
    skip_space();
    if (at_ < bytes_.size()) refuse("more behind the image");
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  void skip_space() {
    while (at_ < bytes_.size() && (is_space(bytes_[at_]) || bytes_[at_] == '#')) {
      if (bytes_[at_] == '#')
        while (at_ < bytes_.size() && bytes_[at_] != '\n') ++at_;
      else
        ++at_;
    }
  }

  [[noreturn]] void refuse(const std::string& found) const {
    fail(name_,
         "a damaged PGM or PPM: expected a number at byte " + std::to_string(at_) + ", found " + found);
  }

  std::string_view bytes_;
  const std::string& name_;
  std::size_t at_ = 2;  // behind "P5"
};

/// P2 (grey, text), P3 (colour, text), P5 (grey, bytes), P6 (colour, bytes).
Picture decode_pnm(std::string_view bytes, const std::string& name) {
  const char kind = bytes[1];
  const bool text = kind == '2' || kind == '3';
  PnmReader reader(bytes, name);
  const std::int64_t width = reader.number(kMaxPictureBytes), height = reader.number(kMaxPictureBytes);
  const std::int64_t white = reader.number(65535);
  if (white < 1 || white > 255)
    fail(name, "a PGM or PPM with " + std::to_string(white) + " for white", "1 to 255 are read");
  Picture picture{height, width, kind == '2' || kind == '5' ? 1 : 3, {}};
  const std::size_t size = bytes_of(width, height, picture.channels, name);
  if (text) {
    if (size > bytes.size())
      fail(name,
           "a damaged PGM or PPM: its header says " + std::to_string(size) + " numbers, the file has " +
               std::to_string(bytes.size()) + " bytes",
           "save or fetch it again");
    picture.pixels.resize(size);
    for (std::uint8_t& pixel : picture.pixels) pixel = static_cast<std::uint8_t>(reader.number(white));
    reader.end();
  } else {
    const std::string_view raster = reader.raster();
    if (raster.size() != size) {
      fail(name,
           "a damaged PGM or PPM: " + std::to_string(raster.size()) + " bytes of pixels where " +
               std::to_string(size) + " were expected",
           "save or fetch it again");
    }
    picture.pixels.assign(raster.begin(), raster.end());
  }
  for (std::uint8_t& pixel : picture.pixels) {
    if (pixel > white) fail(name, "a damaged PGM or PPM: a pixel is brighter than white");
    pixel = static_cast<std::uint8_t>((pixel * 255 + white / 2) / white);
  }
  return picture;
}

}  // namespace

Picture decode_picture(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with(kPngSignature)) return decode_png(bytes, name);
  const bool pnm = bytes.size() > 2 && bytes[0] == 'P' && std::string_view("2356").find(bytes[1]) < 4;
  if (pnm) return decode_pnm(bytes, name);
  fail(name, "no PNG, PGM or PPM", "other images can be converted to one of these");
}

}  // namespace quern
