#include "quern/base/crc32c.hpp"
#include "quern/train/checkpoint_manifest.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

/// The input stands behind the comma that ends a manifest's checksum, which is made right: the checksum alone
/// would keep all that is damaged from the reader.
void read_manifest(std::string_view input) {
  std::string text = "{\"manifest_crc32c\":" + std::to_string(crc32c(input.data(), input.size())) + ",";
  const CheckpointManifest manifest = parse_manifest(text.append(input), "manifest.json");
  const std::string written = render_manifest(manifest);
  require(render_manifest(parse_manifest(written, "manifest.json")) == written,
          "a manifest reads back as it was written");
}

const RegisterTarget manifest({"manifest", read_manifest});

}  // namespace
}  // namespace quern::test
