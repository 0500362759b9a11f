#include "quern/kernels/gemm.hpp"

#include <dnnl.h>
#include <dnnl_version.h>

#include <array>
#include <cstdlib>
#include <dnnl.hpp>
#include <list>
#include <memory>
#include <unordered_map>

#include "quern/base/parallel.hpp"

namespace quern {
namespace {

using dnnl::memory;

/// What a primitive depends on: everything but the addresses.
struct Key {
  std::int64_t m, n, k;
  std::int64_t a_row, a_col, b_row, b_col, c_row;
  Type a, b, c;
  bool bias;
  float beta;
  int threads;

  bool operator==(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t h = 0xcbf29ce484222325ULL;
    const std::int64_t words[] = {key.m,     key.n,     key.k,     key.a_row,  key.a_col,
                                  key.b_row, key.b_col, key.c_row, key.threads};
    for (const std::int64_t w : words)
      h = (h ^ static_cast<std::uint64_t>(w)) * 0x9e3779b97f4a7c15ULL, h ^= h >> 29;
    const std::uint64_t flags = static_cast<std::uint64_t>(key.a) | static_cast<std::uint64_t>(key.b) << 1 |
                                static_cast<std::uint64_t>(key.c) << 2 | std::uint64_t{key.bias} << 3 |
                                std::uint64_t{key.beta != 0} << 4;
    return static_cast<std::size_t>((h ^ flags) * 0x9e3779b97f4a7c15ULL);
  }
};

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::stream& stream() {
  static dnnl::stream one(engine());
  return one;
}

memory::data_type data_type(Type type) {
  return type == Type::f32 ? memory::data_type::f32 : memory::data_type::bf16;
}

/// A primitive with memory objects whose addresses are set at each call, so that a call allocates nothing of
/// ours.
struct Product {
  dnnl::matmul primitive;
  memory a, b, bias, c, scratch;
  std::size_t scratch_bytes = 0;
};

dnnl::matmul::primitive_desc describe(const memory::desc& a, const memory::desc& b, const memory::desc& bias,
                                      const memory::desc& c, const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return bias ? dnnl::matmul::primitive_desc(engine(), a, b, bias, c, attributes)
              : dnnl::matmul::primitive_desc(engine(), a, b, c, attributes);
#else
  return {bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attributes, engine()};
#endif
}

std::unique_ptr<Product> make(const Key& key) {
  const memory::desc a({key.m, key.k}, data_type(key.a), memory::dims{key.a_row, key.a_col});
  const memory::desc b({key.k, key.n}, data_type(key.b), memory::dims{key.b_row, key.b_col});
  const memory::desc c({key.m, key.n}, data_type(key.c), memory::dims{key.c_row, 1});
  memory::desc bias;
  if (key.bias) bias = memory::desc({1, key.n}, memory::data_type::f32, memory::dims{key.n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.beta != 0) {
    dnnl::post_ops post;
    post.append_sum(key.beta);
    attributes.set_post_ops(post);
  }
  const auto description = describe(a, b, bias, c, attributes);
  auto product = std::make_unique<Product>();
  product->primitive = dnnl::matmul(description);
  product->a = memory(a, engine(), nullptr);
  product->b = memory(b, engine(), nullptr);
  product->c = memory(c, engine(), nullptr);
  if (key.bias) product->bias = memory(bias, engine(), nullptr);
  product->scratch = memory(description.scratchpad_desc(), engine(), nullptr);
  product->scratch_bytes = description.scratchpad_desc().get_size();
  return product;
}

/// The products by shape, the least recently used dropped beyond `capacity`, and their common scratchpad.
class Cache {
 public:
  Product& find(const Key& key) {
    if (const auto hit = index_.find(key); hit != index_.end()) {
      order_.splice(order_.begin(), order_, hit->second);
      return *hit->second->second;
    }
    order_.emplace_front(key, make(key));
    index_[key] = order_.begin();
    if (order_.size() > capacity) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return *order_.front().second;
  }

  void* scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      scratch_.reset(static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
      if (!scratch_) throw std::bad_alloc();
      scratch_bytes_ = bytes;
    }
    return scratch_.get();
  }

 private:
  static constexpr std::size_t capacity = 512;
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::list<std::pair<Key, std::unique_ptr<Product>>> order_;
  std::unordered_map<Key, std::list<std::pair<Key, std::unique_ptr<Product>>>::iterator, KeyHash> index_;
  std::unique_ptr<char, Free> scratch_;
  std::size_t scratch_bytes_ = 0;
};

void check(dnnl_status_t status) { QUERN_CHECK(status == dnnl_success, status); }

}  // namespace

void gemm(Mat c, Mat a, Mat b, const GemmOptions& options) {
  QUERN_CHECK(a.rows == c.rows && b.cols == c.cols && a.cols == b.rows, a.rows, a.cols, b.rows, b.cols,
              c.rows, c.cols);
  if (c.col_stride != 1) {
    QUERN_CHECK(c.row_stride == 1 && options.bias == nullptr, c.row_stride, c.col_stride);
    return gemm(c.t(), b.t(), a.t(), options);
  }
  if (c.rows == 0 || c.cols == 0) return;
  static Cache cache;
  const Key key{c.rows,       c.cols,        a.cols, a.row_stride, a.col_stride, b.row_stride,
                b.col_stride, c.row_stride,  a.type, b.type,       c.type,       options.bias != nullptr,
                options.beta, thread_count()};
  Product& product = cache.find(key);
  product.a.set_data_handle(a.data);
  product.b.set_data_handle(b.data);
  product.c.set_data_handle(c.data);
  product.scratch.set_data_handle(cache.scratch(product.scratch_bytes));
  if (key.bias) product.bias.set_data_handle(const_cast<float*>(options.bias));
  const std::array<dnnl_exec_arg_t, 5> arguments = {
      {{DNNL_ARG_SRC, product.a.get()},
       {DNNL_ARG_WEIGHTS, product.b.get()},
       {DNNL_ARG_DST, product.c.get()},
       {DNNL_ARG_SCRATCHPAD, product.scratch.get()},
       {DNNL_ARG_BIAS, key.bias ? product.bias.get() : nullptr}}};
  check(dnnl_primitive_execute(product.primitive.get(), stream().get(), key.bias ? 5 : 4, arguments.data()));
}

std::string gemm_library_version() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace quern
