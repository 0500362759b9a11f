// Image files in memory: IDX and PNG.
#pragma once

#include <png.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace quern::test {

constexpr std::uint32_t kIdxImages = 0x803, kIdxLabels = 0x801;  // magic numbers

inline std::string big_endian(std::uint32_t n) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(n >> shift);
  return bytes;
}

inline std::string idx(std::uint32_t magic, const std::vector<std::uint32_t>& sides,
                       const std::string& data) {
  std::string bytes = big_endian(magic);
  for (const std::uint32_t side : sides) bytes += big_endian(side);
  return bytes + data;
}

/// What stands behind each chunk of a PNG: the CRC-32 of ISO 3309, bit by bit.
inline std::uint32_t png_checksum(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

/// A PNG of the simplified interface's format.
inline std::string png(std::uint32_t width, std::uint32_t height, std::uint32_t format, const void* pixels,
                       const void* palette = nullptr) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  image.colormap_entries = palette != nullptr ? 2 : 0;
  std::string bytes(1 << 16, '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels, 0, palette) == 0)
    throw std::runtime_error(image.message);
  bytes.resize(size);
  return bytes;
}

/// A grey PNG of one row, 16 bits a pixel.
inline std::string grey_16(const std::vector<std::uint16_t>& row) {
  std::string bytes, raw;
  for (const std::uint16_t pixel : row) raw += {static_cast<char>(pixel >> 8), static_cast<char>(pixel)};
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  const auto write = [](png_structp png, png_bytep data, std::size_t size) {
    static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(data), size);
  };
  png_set_write_fn(writer, &bytes, write, nullptr);
  png_set_IHDR(writer, info, static_cast<png_uint_32>(row.size()), 1, 16, PNG_COLOR_TYPE_GRAY,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer, info);
  png_write_row(writer, reinterpret_cast<png_const_bytep>(raw.data()));
  png_write_end(writer, info);
  png_destroy_write_struct(&writer, &info);
  return bytes;
}

}  // namespace quern::test
