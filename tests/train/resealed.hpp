// A manifest that was changed, with its checksum made right again.
#pragma once

#include <string>

#include "catch.hpp"
#include "quern/base/crc32c.hpp"

namespace quern::test {

inline std::string resealed(std::string manifest, const std::string& from, const std::string& to) {
  const std::size_t at = manifest.find(from);
  REQUIRE(at != std::string::npos);
  manifest.replace(at, from.size(), to);
  const std::string body = manifest.substr(manifest.find(',') + 1);
  return "{\"manifest_crc32c\":" + std::to_string(crc32c(body.data(), body.size())) + "," + body;
}

}  // namespace quern::test
