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
#include "quern/kernels/elementwise.hpp"
#include "rows.hpp"

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

/// Memory that grows and is kept.
class Buffer {
 public:
  void* of(std::size_t bytes) {
    if (bytes > bytes_) {
      block_.reset(static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
      if (!block_) throw std::bad_alloc();
      bytes_ = bytes;
    }
    return block_.get();
  }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> block_;
  std::size_t bytes_ = 0;
};

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

  void* scratch(std::size_t bytes) { return scratch_.of(bytes); }

 private:
  static constexpr std::size_t capacity = 512;
  std::list<std::pair<Key, std::unique_ptr<Product>>> order_;
  std::unordered_map<Key, std::list<std::pair<Key, std::unique_ptr<Product>>>::iterator, KeyHash> index_;
  Buffer scratch_;
};

void check(dnnl_status_t status) { QUERN_CHECK(status == dnnl_success, status); }

/// A dense matrix of this type in a buffer, for one whose rows are dense.
Mat dense(const Mat& like, Type type, Buffer& buffer) {
  Mat m = like;
  m.type = type;
  m.data = buffer.of(static_cast<std::size_t>(like.rows * like.cols * size_of(type)));
  m.row_stride = like.cols;
  return m;
}

/// A matrix whose rows are dense, as a tensor.
Tensor rows_tensor(const Mat& m) {
  QUERN_CHECK(m.col_stride == 1, m.rows, m.cols, m.row_stride, m.col_stride);
  Tensor t(m.data, m.type, std::array{m.rows, m.cols});
  t.stride[0] = m.row_stride;
  return t;
}

/// The matrix, or a copy of that type whose rows, or columns, are dense as the matrix' are.
Mat converted(const Mat& m, Type type, Buffer& buffer) {
  if (m.type == type) return m;
  if (m.col_stride != 1) return converted(m.t(), type, buffer).t();
  const Mat copy = dense(m, type, buffer);
  convert({rows_tensor(copy), 0}, rows_tensor(m));
  return copy;
}

/// Rows so few that reading b once is the whole work: by our own kernel, straight from b's own type.
bool is_few_rows(const Mat& c, const Mat& a, const Mat& b) {
  return c.rows <= kernels::few_rows_most && a.col_stride == 1 && b.row_stride == 1 && c.col_stride == 1;
}

void gemm_few_rows(const Mat& c, const Mat& a, const Mat& b, const GemmOptions& options) {
  static Buffer widened;
  const Mat x = converted(a, Type::f32, widened);
  const kernels::FewRows job = {x.f32(),
                                x.row_stride,
                                c.rows,
                                b.data,
                                b.type == Type::bf16,
                                b.col_stride,
                                b.rows,
                                {c.data, c.row_stride, c.type == Type::bf16},
                                options.bias,
                                options.beta};
  parallel_for(c.cols, 4 * kernels::row_grain(b.rows),
               [&](std::int64_t begin, std::int64_t end) { kernels::level().few_rows(job, begin, end); });
}

/// The product of bf16 operands on a processor that has none.
void gemm_through_f32(Mat c, const Mat& a, const Mat& b, GemmOptions options) {
  static Buffer left, right, result;
  const Mat wide = c.type == Type::f32 ? c : dense(c, Type::f32, result);
  const float beta = options.beta;
  if (c.type != Type::f32) options.beta = 0;
  gemm(wide, converted(a, Type::f32, left), converted(b, Type::f32, right), options);
  if (c.type != Type::f32) convert({rows_tensor(c), beta}, rows_tensor(wide));
}

}  // namespace

bool gemm_has_bf16() {
  static const bool has = [] {
    try {
      make({16, 16, 16, 16, 1, 16, 1, 16, Type::bf16, Type::bf16, Type::bf16, false, 0, thread_count()});
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return has;
}

void gemm(Mat c, Mat a, Mat b, const GemmOptions& options) {
  QUERN_CHECK(a.rows == c.rows && b.cols == c.cols && a.cols == b.rows, a.rows, a.cols, b.rows, b.cols,
              c.rows, c.cols);
  if (c.col_stride != 1) {
    QUERN_CHECK(c.row_stride == 1 && options.bias == nullptr, c.row_stride, c.col_stride);
    return gemm(c.t(), b.t(), a.t(), options);
  }
  if (c.rows == 0 || c.cols == 0) return;
  if (a.type != b.type) {
    static Buffer rounded;
    return gemm(c, converted(a, Type::bf16, rounded), converted(b, Type::bf16, rounded), options);
  }
  if (is_few_rows(c, a, b)) return gemm_few_rows(c, a, b, options);
  if (a.type == Type::bf16 && !gemm_has_bf16()) return gemm_through_f32(c, a, b, options);
  QUERN_CHECK(a.type == Type::bf16 || c.type == Type::f32);
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
