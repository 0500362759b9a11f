// Labelled images: MNIST's IDX files, folders of PNG, PGM and PPM files, and shapes drawn by us.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern/data/corpus.hpp"
#include "quern/data/problems.hpp"

namespace quern {

/// Images of one size, each with the place of its label in `names`.
struct ImageSet {
  std::int64_t count = 0;            // N >= 1
  std::int64_t height = 0;           // H
  std::int64_t width = 0;            // W
  std::int64_t channels = 0;         // C: 1 grey, 3 red, green, blue
  std::vector<std::uint8_t> pixels;  // (N,H,W,C)
  std::vector<std::int32_t> labels;  // (N)
  std::vector<std::string> names;    // of the labels
};

/// Reads a pair of IDX files (LeCun, "The MNIST database"): images of magic number 0x803 with N, H, W and
/// N*H*W bytes, labels of magic number 0x801 with N and N bytes; numbers are big-endian. Names are "0" to the
/// largest label. Throws Error(file) for another magic number, a size that is not what the header says, N
/// that differs, no image, and more than `memory` bytes; nothing is allocated before the sizes are known to
/// be right. Error(io) when the system refuses.
ImageSet read_idx(const std::string& images, const std::string& labels,
                  std::uint64_t memory = physical_memory());

/// Reads a folder whose sub-folders are the labels, in the order of their names, and hold PNG, PGM and PPM
/// files, taken in the order of their names. Names that begin with a dot are passed over. 8 or 16 bits a
/// channel become 8. Throws Error(file), naming the file, for one that is no such image or is damaged, has an
/// alpha channel, or is of another size or other channels than the first (both are told), for an image
/// outside a sub-folder, fewer than two labels, a label without images, and more than `memory` bytes.
/// Error(io) when the system refuses.
ImageSet read_image_folder(const std::string& folder, std::uint64_t memory = physical_memory());

/// One image file, without a label.
ImageSet read_image(const std::string& path);

/// Images of one shape each: a circle, square, triangle, cross or ring at a random place, of a random size
/// and brightness, with noise.
struct ShapeOptions {
  std::int64_t size = 24;  // H = W, 12 … 256
  double noise = 0.1;  // each pixel is moved by up to this share of the range from black to white; 0 … 0.5
  std::uint64_t seed = 1;
};

/// The images [first, first + count) of a split, C = 1, as a pure function of (seed, split, index): the
/// splits are two independent streams. Throws Error(config) for an option out of range.
ImageSet draw_shapes(const ShapeOptions& options, Split split, std::int64_t first, std::int64_t count);

}  // namespace quern
