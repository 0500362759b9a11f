#include "quern/data/images.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

/// A byte tells how long the file of labels is that follows it; the rest is the file of images.
void read_idx_pair(std::string_view input) {
  const std::size_t length = input.empty() ? 0 : static_cast<unsigned char>(input[0]);
  const std::string_view rest = input.substr(input.empty() ? 0 : 1);
  const std::string_view labels = rest.substr(0, length), images = rest.substr(labels.size());
  const ImageSet set = read_idx(input_file("images", images), input_file("labels", labels));
  require(set.pixels.size() == static_cast<std::size_t>(set.count * set.height * set.width), "N*H*W pixels");
  require(set.labels.size() == static_cast<std::size_t>(set.count), "N labels");
  for (const std::int32_t label : set.labels)
    require(label >= 0 && label < static_cast<std::int32_t>(set.names.size()), "a label has a name");
}

const RegisterTarget idx({"idx", read_idx_pair});

}  // namespace
}  // namespace quern::test
