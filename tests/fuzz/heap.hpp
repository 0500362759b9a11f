// What operator new gave and did not get back yet: the memory of everything in C++. libpng and zlib take
// theirs from malloc and are not counted; they have limits of their own.
#pragma once

#include <cstdint>

namespace quern::test {

/// Begins to watch: from now on peak_bytes() is counted from what lives at this moment.
void watch_heap();

/// The most bytes that lived at one time since watch_heap(), beyond those of before.
std::uint64_t peak_bytes();

}  // namespace quern::test
