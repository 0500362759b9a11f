// The whole decoder, slowly, under any scalar type: a list of named parameters goes in, the loss comes out.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "quern/autograd/tape.hpp"
#include "quern/nn/config.hpp"
#include "reference/activation.hpp"
#include "reference/embedding.hpp"
#include "reference/loss.hpp"
#include "reference/multi_head.hpp"
#include "reference/norm.hpp"

namespace quern::reference {

template <class X>
using Parameters = std::map<std::string, std::vector<X>>;

struct Sequences {
  std::vector<std::int32_t> ids, targets;  // (B,T)
  std::int64_t batch, length;

  std::size_t rows() const { return ids.size(); }
};

template <class X>
class Decoder {
 public:
  using Rows = std::vector<X>;  // (R,…), R = B T

  Decoder(const ModelConfig& config, const Parameters<X>& parameters, const Sequences& batch,
          RandomContext random)
      : c_(config), parameters_(parameters), batch_(batch), random_(random) {}

  /// sum over the targets that count of the smoothed loss, over `normaliser`.
  X loss(double normaliser, double label_smoothing) const {
    const Rows& head = p(c_.tie_embeddings ? "decoder.embedding.tokens.weight" : "head.weight");
    return cross_entropy(product(stack(), head, {}), batch_.targets, label_smoothing).smoothed /
           X(normaliser);
  }

 private:
  Rows stack() const {
    Rows x = embed();
    if (c_.norm_placement == NormPlacement::post) {
      for (std::int64_t i = 0; i < c_.n_layers; ++i) {
        const std::string block = "decoder.blocks." + std::to_string(i) + ".";
        x = norm(block + "attention_norm", x, attend(block + "attention", x)).h;
        x = norm(block + "feed_forward_norm", x, feed_forward(block + "feed_forward", x)).h;
      }
      return x;
    }
    Rows branch;  // what the next norm adds, with that norm's dropout
    for (std::int64_t i = 0; i < c_.n_layers; ++i) {
      const std::string block = "decoder.blocks." + std::to_string(i) + ".";
      const auto a = norm(block + "attention_norm", x, branch);
      const auto f = norm(block + "feed_forward_norm", a.x, attend(block + "attention", a.h));
      x = f.x;
      branch = feed_forward(block + "feed_forward", f.h);
    }
    return norm("decoder.norm", x, branch).h;
  }

  Rows embed() const {
    const auto width = static_cast<std::size_t>(c_.d_model);
    Rows positions;
    double scale = 1;
    if (c_.position == PositionKind::learned) positions = p("decoder.embedding.positions.weight");
    if (c_.position == PositionKind::sinusoidal) {
      scale = std::sqrt(static_cast<double>(c_.d_model));
      for (std::int64_t t = 0; t < c_.context_length; ++t)
        for (std::int64_t i = 0; i < c_.d_model; ++i) {
          const double half = static_cast<double>(c_.d_model) / 2;
          const bool sine = static_cast<double>(i) < half;
          const double channel = static_cast<double>(i) - (sine ? 0 : half);
          const double angle = static_cast<double>(t) * std::pow(10000.0, -channel / half);
          positions.push_back(sine ? std::sin(angle) : std::cos(angle));
        }
    }
    return embedding(batch_.ids, static_cast<std::size_t>(batch_.length),
                     p("decoder.embedding.tokens.weight"), width, scale, positions, 0,
                     dropout("decoder.embedding", c_.dropout, batch_.length));
  }

  ResidualNorm<X> norm(const std::string& path, const Rows& stream, const Rows& branch) const {
    const bool has_bias = c_.norm == NormKind::layernorm;
    return residual_norm(stream, branch, p(path + ".weight"), has_bias ? bias(path) : Rows(), c_.norm_eps,
                         dropout(path, c_.dropout, batch_.length), c_.norm);
  }

  Rows attend(const std::string& path, const Rows& x) const {
    const std::int64_t H = c_.n_heads;
    const auto gain = [&](const char* name) { return c_.qk_norm ? p(path + name) : Rows(); };
    const MultiHeadWeights<X> w = {p(path + ".qkv.weight"), bias(path + ".qkv"),     gain(".q_norm.weight"),
                                   gain(".k_norm.weight"),  p(path + ".out.weight"), bias(path + ".out")};
    AttentionOptions options;
    options.dropout = dropout(path, c_.attention_dropout, 1);
    if (c_.attention == AttentionKind::sliding_window) {
      options.mask.window = c_.window;
      options.mask.globals = c_.global_tokens;
    }
    const std::vector<float> slopes = alibi_slopes(H);
    if (c_.position == PositionKind::alibi) options.slopes = slopes.data();
    const AttentionShape shape{batch_.batch, batch_.length, batch_.length, H, head_width(c_), key_heads(c_)};
    return multi_head_attention(shape, w, x, x, options,
                                c_.position == PositionKind::rope ? c_.rope_theta : 0, c_.norm_eps);
  }

  Rows feed_forward(const std::string& path, const Rows& x) const {
    const Rows pre = product(x, p(path + ".up.weight"), bias(path + ".up"));
    const std::size_t width = pre.size() / batch_.rows() / (is_gated(c_.activation) ? 2 : 1);
    return product(hidden(pre, width, c_.activation), p(path + ".down.weight"), bias(path + ".down"));
  }

  /// x Wᵀ + b
  Rows product(const Rows& x, const Rows& w, const Rows& b) const {
    return affine(x, w, b, x.size() / batch_.rows());
  }

  Dropout dropout(const std::string& path, double rate, std::int64_t rows_per_sequence) const {
    if (rate == 0) return {};
    return {RandomStream(random_.seed, site_hash(path), random_.step), rate,
            random_.first_sequence * static_cast<std::uint64_t>(rows_per_sequence)};
  }

  const Rows& p(const std::string& name) const { return parameters_.at(name); }
  Rows bias(const std::string& path) const { return c_.bias ? p(path + ".bias") : Rows(); }

  const ModelConfig& c_;
  const Parameters<X>& parameters_;
  const Sequences& batch_;
  RandomContext random_;
};

}  // namespace quern::reference
