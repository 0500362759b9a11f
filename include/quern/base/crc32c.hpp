// CRC-32C (Castagnoli): the checksum of checkpoints and of TensorBoard records. RFC 3720, appendix B.4.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern {

/// The CRC-32C of `bytes` bytes at `data`: reflected polynomial 0x82F63B78, start and end inverted.
/// `crc` is the value of what came before: crc32c(b, crc32c(a)) is the checksum of a followed by b.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t crc = 0);

/// The checksum of a followed by b from crc32c(a), crc32c(b) and the length of b, in O(log length):
/// crc(a b) = crc(a) x^(8 |b|) + crc(b) in GF(2)[x] modulo the polynomial.
std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

}  // namespace quern
