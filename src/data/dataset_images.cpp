#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include "dataset_parts.hpp"
#include "quern/base/check.hpp"
#include "quern/base/suggest.hpp"
#include "quern/data/windows.hpp"
#include "quern/text/fingerprint.hpp"

namespace quern {
namespace {

/// MNIST's names: the labels of "…images-idx3-ubyte" lie in "…labels-idx1-ubyte".
std::string labels_beside(const std::string& images) {
  const std::string part = "images-idx3", wanted = "labels-idx1";
  const std::size_t at = images.rfind(part);
  if (at == std::string::npos)
    throw Error(ErrorKind::file, "is no folder, and its name does not tell where the labels are",
                "a folder with a sub-folder for each label, or two IDX files: images, then labels", images);
  return std::string(images).replace(at, part.size(), wanted);
}

ImageSet read_images(const DataConfig& config) {
  std::error_code ignored;
  if (config.text.size() == 2) return read_idx(config.text[0], config.text[1]);
  const std::string& path = config.text.at(0);
  if (std::filesystem::is_directory(path, ignored)) return read_image_folder(path);
  return read_idx(path, labels_beside(path));
}

void check_patches(const ImageSet& set, const DataShape& shape, TaskKind task, const std::string& name) {
  const std::int64_t P = shape.patch_size;
  if (set.height % P != 0 || set.width % P != 0)
    throw Error(task == TaskKind::shapes ? ErrorKind::config : ErrorKind::file,
                "images of " + std::to_string(set.width) + " x " + std::to_string(set.height) +
                    " do not part into squares of " + std::to_string(P) + " (model.patch_size)",
                "a model.patch_size that divides both", name);
  require_context(task, 1 + set.height / P * (set.width / P), shape);
}

/// Image i as rows of patches behind an empty one, from black -1 to white 1.
void cut(const ImageSet& set, std::int64_t i, std::int64_t P, Example& to) {
  const std::int64_t H = set.height, W = set.width, C = set.channels, width = P * P * C;
  const std::uint8_t* pixels = set.pixels.data() + i * H * W * C;
  to.patches.assign(static_cast<std::size_t>(width), 0);  // the class token
  for (std::int64_t y = 0; y < H; y += P)
    for (std::int64_t x = 0; x < W; x += P)
      for (std::int64_t dy = 0; dy < P; ++dy)
        for (std::int64_t k = 0; k < P * C; ++k)
          to.patches.push_back(static_cast<float>(pixels[((y + dy) * W + x) * C + k]) / 127.5F - 1);
  to.inputs.resize(to.patches.size() / static_cast<std::size_t>(width));
  std::iota(to.inputs.begin(), to.inputs.end(), 0);
}

/// Of all that training sees of them: sizes, what the labels are called, which one each image has, pixels.
std::string fingerprint_of_images(const ImageSet& set) {
  Fingerprint print;
  print.number(set.count).number(set.height).number(set.width).number(set.channels);
  print.texts(set.names);
  for (const std::int32_t label : set.labels) print.number(std::int64_t{label});
  print.text({reinterpret_cast<const char*>(set.pixels.data()), set.pixels.size()});
  return print.digits();
}

}  // namespace

void image_example(const ImageSet& set, std::int64_t patch_size, Example& to) { cut(set, 0, patch_size, to); }

Dataset load_images(const DataConfig& config, const DataShape& shape) {
  const bool drawn = config.task == TaskKind::shapes;
  const std::string name = drawn ? "shapes" : config.text.at(0);
  ShapeOptions options;
  options.seed = shape.seed;
  const auto set = std::make_shared<const ImageSet>(drawn ? draw_shapes(options, Split::train, 0, 1)
                                                          : read_images(config));
  check_patches(*set, shape, config.task, drawn ? "" : name);
  std::vector<std::string> labels = config.labels.empty() ? set->names : config.labels;
  const LabelIndex numbers(labels);
  std::vector<std::int32_t> classes;  // of the set's labels
  for (const std::string& label : set->names) {
    const auto found = numbers.find(label);
    if (!found)
      throw Error(ErrorKind::file, "the label " + in_quotes(label) + " is none that training had",
                  "the same sub-folders as in training", name);
    classes.push_back(*found);
  }
  Examples examples;
  examples.kind = RowKind::label;
  examples.train = drawn ? 0 : train_size(set->count, config.val_fraction);
  examples.held_out = drawn ? config.val_examples : set->count - examples.train;
  const std::int64_t tokens = 1 + set->height / shape.patch_size * (set->width / shape.patch_size);
  examples.lengths = [tokens](std::int64_t) { return Lengths{0, tokens}; };
  examples.get = [set, classes, shape, options, drawn, train = examples.train](
                     Split split, std::int64_t index, Example& to) {
    to.source.clear();
    if (drawn) {
      const ImageSet one = draw_shapes(options, split, index, 1);
      cut(one, 0, shape.patch_size, to);
      to.targets = {classes[static_cast<std::size_t>(one.labels[0])]};
      return;
    }
    // A folder's images stand by label: mixed, both splits hold all of them.
    const auto at = static_cast<std::int64_t>(
        permute(static_cast<std::uint64_t>(split == Split::train ? index : train + index),
                static_cast<std::uint64_t>(set->count), shape.seed, 0));
    cut(*set, at, shape.patch_size, to);
    to.targets = {classes[static_cast<std::size_t>(set->labels[static_cast<std::size_t>(at)])]};
  };
  return {.tokenizer = Tokenizer::bytes(),
          .name = name,
          .fingerprint =
              drawn ? fingerprint_of("shapes;" + std::to_string(options.seed)) : fingerprint_of_images(*set),
          .corpus = std::nullopt,
          .examples = std::move(examples),
          .labels = std::move(labels),
          .image = {set->height, set->width, set->channels},
          .notes = {}};
}

}  // namespace quern
