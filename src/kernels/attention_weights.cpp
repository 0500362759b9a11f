#include <cmath>
#include <limits>

#include "quern/kernels/attention.hpp"

namespace quern {
namespace {

/// Row t of head h of sequence b in a (B,T,H,D) view, in double.
std::vector<double> row_of(const Tensor& x, std::int64_t b, std::int64_t t, std::int64_t h) {
  std::vector<double> row;
  for (std::int64_t d = 0; d < x.dim[3]; ++d) {
    const char* at = x.at(b * x.stride[0] + t * x.stride[1] + h * x.stride[2] + d * x.stride[3]);
    row.push_back(x.type == Type::f32 ? *reinterpret_cast<const float*>(at)
                                      : to_float(*reinterpret_cast<const bf16*>(at)));
  }
  return row;
}

/// score(t,s) but for the bias.
double score(const std::vector<double>& q, const std::vector<double>& k, const AttentionOptions& options,
             std::int64_t h) {
  double sum = 0;
  if (options.additive != nullptr) {
    const float* w = options.additive + static_cast<std::size_t>(h) * q.size();
    for (std::size_t d = 0; d < q.size(); ++d) sum += double(w[d]) * std::tanh(q[d] + k[d]);
    return sum;
  }
  for (std::size_t d = 0; d < q.size(); ++d) sum += q[d] * k[d];
  return sum * double(options.scale);
}

}  // namespace

void attention_weights(std::span<float> weights, Tensor q, Tensor k, const AttentionOptions& options,
                       std::int64_t b, std::int64_t h) {
  const std::int64_t T = q.dim[1], S = k.dim[1], key_head = h / (q.dim[2] / k.dim[2]);
  QUERN_CHECK(static_cast<std::int64_t>(weights.size()) == T * S, weights.size(), T, S);
  std::vector<std::vector<double>> keys;
  for (std::int64_t s = 0; s < S; ++s) keys.push_back(row_of(k, b, s, key_head));
  const double slope = options.slopes != nullptr ? double(options.slopes[h]) : 0;
  std::vector<double> row(static_cast<std::size_t>(S));
  for (std::int64_t t = 0; t < T; ++t) {
    const std::vector<double> query = row_of(q, b, t, h);
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t s = 0; s < S; ++s) {
      double& x = row[static_cast<std::size_t>(s)];
      x = -std::numeric_limits<double>::infinity();
      if (!options.mask.sees(b, t, s, S)) continue;
      x = score(query, keys[static_cast<std::size_t>(s)], options, h) +
          slope * static_cast<double>(options.mask.distance(t, s));
      largest = std::max(largest, x);
    }
    for (double& x : row) total += x = std::isinf(largest) && largest < 0 ? 0 : std::exp(x - largest);
    for (std::int64_t s = 0; s < S; ++s)
      weights[static_cast<std::size_t>(t * S + s)] =
          total == 0 ? 0 : static_cast<float>(row[static_cast<std::size_t>(s)] / total);
  }
}

}  // namespace quern
