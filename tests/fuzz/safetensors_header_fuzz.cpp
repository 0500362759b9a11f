#include "quern/io/safetensors_header.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

constexpr std::uint64_t kDataBytes = 24;  // of the seeds

void read_header(std::string_view input) {
  const safetensors::Header header =
      safetensors::parse_header(std::string(input), kDataBytes, "x.safetensors");
  for (const safetensors::TensorInfo& tensor : header.tensors)
    require(tensor.begin <= tensor.end && tensor.end <= safetensors::kLengthBytes + input.size() + kDataBytes,
            "a tensor lies within the file");
}

const RegisterTarget header({"safetensors_header", read_header});

}  // namespace
}  // namespace quern::test
