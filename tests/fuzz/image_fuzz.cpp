#include "quern/data/images.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

void read_picture(std::string_view input) {
  const ImageSet set = read_image(input_file("x.png", input));
  require(set.pixels.size() == static_cast<std::size_t>(set.height * set.width * set.channels),
          "H*W*C pixels");
}

const RegisterTarget image({"image", read_picture});

}  // namespace
}  // namespace quern::test
