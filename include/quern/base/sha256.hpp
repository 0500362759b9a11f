// SHA-256 (FIPS 180-4), and base 64 (RFC 4648), in which a Content-Security-Policy names hashes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quern {

/// The 32 bytes of the hash, the most significant first.
std::array<std::uint8_t, 32> sha256(std::string_view text);

/// Four characters for each three bytes, the last ones filled up with '='.
std::string base64(std::span<const std::uint8_t> bytes);

}  // namespace quern
