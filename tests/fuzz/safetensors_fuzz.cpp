#include "quern/io/safetensors.hpp"

#include "quern/io/tensor_facts.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

void read_safetensors(std::string_view input) {
  Files files;
  const safetensors::Reader reader(files, input_file("x.safetensors", input));
  const safetensors::Checksums sums = reader.checksums();
  std::uint64_t bytes = 0;
  for (const safetensors::TensorInfo& tensor : reader.tensors()) {
    require(reader.find(tensor.name) == &tensor, "a tensor is found by its name");
    require(sums.tensors.contains(tensor.name), "each tensor has a checksum");
    safetensors::statistics(reader, tensor, 64);
    bytes += tensor.bytes();
  }
  require(bytes <= input.size(), "tensors lie within the file");
  safetensors::grouped(reader.tensors());
}

const RegisterTarget safetensors_file({"safetensors", read_safetensors});

}  // namespace
}  // namespace quern::test
