#include "heap.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> live{0}, peak{0}, base{0};

void* take(std::size_t bytes, std::size_t alignment) noexcept {
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) return nullptr;
  const auto size = static_cast<std::int64_t>(malloc_usable_size(memory));
  const std::int64_t now = live.fetch_add(size) + size;
  std::int64_t most = peak.load();
  while (most < now && !peak.compare_exchange_weak(most, now)) {
  }
  return memory;
}

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = take(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

void give(void* memory) noexcept {
  if (memory != nullptr) live.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

constexpr std::size_t plain = alignof(std::max_align_t);

}  // namespace

void* operator new(std::size_t bytes) { return take_or_throw(bytes, plain); }
void* operator new[](std::size_t bytes) { return take_or_throw(bytes, plain); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, plain); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, plain); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give(memory); }
void operator delete[](void* memory) noexcept { give(memory); }
void operator delete(void* memory, std::size_t) noexcept { give(memory); }
void operator delete[](void* memory, std::size_t) noexcept { give(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { give(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { give(memory); }

namespace quern::test {

void watch_heap() {
  base = live.load();
  peak = live.load();
}

std::uint64_t peak_bytes() { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, peak - base)); }

}  // namespace quern::test
