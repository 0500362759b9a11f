#include "quern/base/arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "quern/base/check.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace quern {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// Memory from the system; of a large block what fills huge pages lies on such where the system grants them,
/// which spares most page faults and TLB misses of a step.
void* from_system(std::size_t bytes) {
  const bool large = bytes >= huge_page;
  void* p = std::aligned_alloc(large ? huge_page : alignment, round_up(bytes, large ? huge_page : alignment));
  if (p == nullptr) throw std::bad_alloc();
  if (large) madvise(p, bytes / huge_page * huge_page, MADV_HUGEPAGE);
  return p;
}

/// The pages of memory that is about to be freed: malloc keeps some of what it gets, but not these.
void drop_pages(void* p, std::size_t bytes) {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = round_up(reinterpret_cast<std::uintptr_t>(p), page);
  const auto end = (reinterpret_cast<std::uintptr_t>(p) + bytes) / page * page;
  if (end <= begin) return;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_NOHUGEPAGE);
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

/// Address space that a block may take: a large one lies on boundaries of huge pages.
constexpr std::size_t reserved_for(std::size_t bytes) {
  return bytes < huge_page ? bytes : round_up(bytes, huge_page) + huge_page;
}

/// Freed memory reads as NaN in debug builds, and not at all under AddressSanitizer.
void poison([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(p, bytes);
#elif !defined(NDEBUG)
  std::memset(p, 0xff, bytes);
#endif
}

void unpoison([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(p, bytes);
#endif
}

}  // namespace

void Arena::Free::operator()(char* p) const { std::free(p); }

void* Arena::allocate(std::size_t bytes) {
  bytes = round_up(std::max<std::size_t>(bytes, 1), alignment);
  while (mark_.chunk < chunks_.size() && mark_.used + bytes > chunks_[mark_.chunk].size)
    mark_ = {mark_.chunk + 1, 0};
  if (mark_.chunk == chunks_.size()) {
    const std::size_t size = std::max(bytes, std::size_t{1} << 20);
    chunks_.push_back({std::unique_ptr<char, Free>(static_cast<char*>(from_system(size))), size});
  }
  char* p = chunks_[mark_.chunk].data.get() + mark_.used;
  mark_.used += bytes;
  unpoison(p, bytes);
  return p;
}

void Arena::reset(Mark to) {
  for (std::size_t i = to.chunk; i < chunks_.size() && i <= mark_.chunk; ++i) {
    const std::size_t begin = i == to.chunk ? to.used : 0;
    const std::size_t end = i == mark_.chunk ? mark_.used : chunks_[i].size;
    if (end > begin) poison(chunks_[i].data.get() + begin, end - begin);
  }
  mark_ = to;
}

struct alignas(alignment) Pool::Header {
  std::size_t size;  // of the data behind the header
  Header* next;      // in the chain of free blocks
  bool free;
};

Pool::~Pool() {
  for (Header* block : all_) destroy(block);
}

void Pool::destroy(Header* block) {
  if (backing_ == Backing::memory) unpoison(block + 1, block->size);
  std::free(block);
}

void* Pool::allocate(std::size_t bytes) {
  bytes = round_up(std::max<std::size_t>(bytes, 1), alignment);
  Header* block = reuse(bytes);
  if (block == nullptr) block = make(bytes);
  block->free = false;
  in_use_ += block->size;
  most_in_use_ = std::max(most_in_use_, in_use_);
  if (backing_ == Backing::memory) unpoison(block + 1, block->size);
  return block + 1;
}

/// The smallest free block that is large enough and not twice as large; null when there is none.
Pool::Header* Pool::reuse(std::size_t bytes) {
  for (auto it = free_.lower_bound(bytes); it != free_.end() && it->first <= 2 * bytes; ++it) {
    if (it->second == nullptr) continue;
    Header* block = it->second;
    it->second = block->next;
    return block;
  }
  return nullptr;
}

Pool::Header* Pool::make(std::size_t bytes) {
  if (gives_back_) {
    const std::size_t most = std::max(most_in_use_, in_use_ + bytes);
    give_back(most + most / spare_part - bytes);
  }
  auto* block = static_cast<Header*>(from_system(sizeof(Header) + (backing_ == Backing::none ? 0 : bytes)));
  block->size = bytes;
  try {
    free_.try_emplace(bytes, nullptr);  // now, since release() may not fail
    all_.insert(block);
  } catch (...) {
    std::free(block);
    throw;
  }
  held_ += bytes;
  reserved_ += reserved_for(bytes);
  return block;
}

/// Free blocks, the largest first, until at most that many bytes are held or none is left.
void Pool::give_back(std::size_t most) {
  QUERN_CHECK(backing_ == Backing::memory);
  for (auto it = free_.end(); it != free_.begin() && held_ > most;) {
    --it;
    while (it->second != nullptr && held_ > most) {
      Header* block = it->second;
      it->second = block->next;
      held_ -= block->size;
      reserved_ -= reserved_for(block->size);
      all_.erase(block);
      drop_pages(block + 1, block->size);
      destroy(block);
    }
    // A size that no block has any more is forgotten: allocate() walks over all of them.
    const auto has_size = [&](const Header* block) { return block->size == it->first; };
    if (std::none_of(all_.begin(), all_.end(), has_size)) it = free_.erase(it);
  }
}

void Pool::release(void* data) {
  Header* block = static_cast<Header*>(data) - 1;
  QUERN_CHECK(!block->free, block->size);
  block->free = true;
  in_use_ -= block->size;
  if (backing_ == Backing::memory) poison(data, block->size);
  Header*& head = free_[block->size];
  block->next = head;
  head = block;
}

}  // namespace quern
