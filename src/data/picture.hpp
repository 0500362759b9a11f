// One image file, decoded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

struct Picture {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels;  // (H,W,C)
};

/// Decoded pixels of one image at most: what a header promises beyond that is refused before it is allocated.
constexpr std::int64_t kMaxPictureBytes = 64 << 20;

/// Decodes a PNG (through libpng), PGM or PPM, told by its first bytes. Throws Error(file) with `name` as its
/// place for anything else, for damage, an alpha channel and more than kMaxPictureBytes.
Picture decode_picture(std::string_view bytes, const std::string& name);

}  // namespace quern
