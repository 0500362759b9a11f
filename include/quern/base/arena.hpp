// The memory of one step, in two regions: an Arena (a stack with a mark) for nodes, closures and statistics,
// and a Pool (free lists by size) for tensors, each of which goes back at its last use. Both keep what they
// got from the system, so that a step after the first allocates nothing (but see give_back_spare).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace quern {

/// A stack of bytes in chunks. reset() returns to a mark and keeps the chunks. Nothing placed here is
/// destroyed.
class Arena {
 public:
  struct Mark {
    std::size_t chunk = 0, used = 0;
  };

  /// `bytes` bytes aligned to 64, not initialised. Throws std::bad_alloc.
  void* allocate(std::size_t bytes);

  template <class T>
  T* array(std::size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    return static_cast<T*>(allocate(n * sizeof(T)));
  }

  template <class T, class... Args>
  T* make(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T))) T{std::forward<Args>(args)...};
  }

  Mark mark() const { return mark_; }
  void reset(Mark to);

 private:
  struct Free {
    void operator()(char* p) const;
  };
  struct Chunk {
    std::unique_ptr<char, Free> data;
    std::size_t size;
  };
  std::vector<Chunk> chunks_;
  Mark mark_;
};

/// Whether there is memory behind what is asked for. With `none` sizes are counted and addresses are made up:
/// nobody may touch one.
enum class Backing { memory, none };

/// Blocks by size. A freed block is kept for the next request of its size (or down to half of it). Blocks
/// of two megabytes and more ask the system for huge pages. Freed memory is poisoned in debug and sanitizer
/// builds.
class Pool {
 public:
  explicit Pool(Backing backing = Backing::memory) : backing_(backing) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  /// A block of at least `bytes` bytes aligned to 64, not initialised. Throws std::bad_alloc.
  void* allocate(std::size_t bytes);
  void release(void* block);
  /// For requests that differ from step to step: from now on blocks that nobody uses go back to the system
  /// before a new one is made, until all hold at most 1/spare_part more than was ever in use at once.
  void give_back_spare() { gives_back_ = true; }
  static constexpr int spare_part = 8;

  Backing backing() const { return backing_; }
  std::size_t bytes_in_use() const { return in_use_; }
  std::size_t bytes_held() const { return held_; }
  /// Address space that these may take: large blocks lie on boundaries of huge pages.
  std::size_t bytes_reserved() const { return reserved_; }

 private:
  struct Header;
  Header* reuse(std::size_t bytes);
  Header* make(std::size_t bytes);
  void give_back(std::size_t most);
  void destroy(Header* block);

  Backing backing_;
  std::map<std::size_t, Header*> free_;  // size -> chain of free blocks
  std::unordered_set<Header*> all_;
  std::size_t in_use_ = 0, most_in_use_ = 0, held_ = 0, reserved_ = 0;
  bool gives_back_ = false;
};

}  // namespace quern
