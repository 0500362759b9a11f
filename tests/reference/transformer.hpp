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
#include "reference/linear_attention.hpp"
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
    const std::int64_t H = c_.n_heads, D = head_width(c_), heads[3] = {H, key_heads(c_), key_heads(c_)};
    const Rows packed = product(x, p(path + ".qkv.weight"), bias(path + ".qkv"));  // (R,C+2K)
    Rows part[3];
    for (auto at = packed.begin(); at != packed.end();)
      for (int i = 0; i < 3; ++i) {
        part[i].insert(part[i].end(), at, at + heads[i] * D);
        at += heads[i] * D;
      }
    if (c_.score == ScoreKind::general) part[0] = by_head(part[0], p(path + ".score.weight"), D);
    for (const int i : {0, 1}) {
      const std::string name = path + (i == 0 ? ".q_norm.weight" : ".k_norm.weight");
      part[i] = rotary(part[i], c_.qk_norm ? p(name) : Rows(), static_cast<std::size_t>(D),
                       static_cast<std::size_t>(heads[i]), static_cast<std::size_t>(batch_.length), 0,
                       c_.position == PositionKind::rope ? c_.rope_theta : 0, c_.norm_eps);
    }
    const AttentionShape shape{batch_.batch, batch_.length, batch_.length, H, D, heads[1]};
    if (c_.attention == AttentionKind::linear) {
      LinearAttentionOptions linear;
      std::vector<float> directions;
      if (c_.feature_map == FeatureMap::favor)
        for (const X& number : p(path + ".favor.directions"))
          directions.push_back(static_cast<float>(plain(number)));
      if (!directions.empty()) linear = {true, nullptr, directions.data(), feature_count(c_)};
      return product(linear_attention(shape, part[0], part[1], part[2], linear), p(path + ".out.weight"),
                     bias(path + ".out"));
    }
    AttentionOptions options;
    if (c_.score == ScoreKind::scaled_dot) options.scale = 1 / std::sqrt(static_cast<float>(D));
    options.dropout = dropout(path, c_.attention_dropout, 1);
    if (c_.attention == AttentionKind::sliding_window) {
      options.mask.window = c_.window;
      options.mask.globals = c_.global_tokens;
    }
    const std::vector<float> slopes = alibi_slopes(H);
    if (c_.position == PositionKind::alibi) options.slopes = slopes.data();
    const Rows w = c_.score == ScoreKind::additive ? p(path + ".score.weight") : Rows();
    return product(attention(shape, part[0], part[1], part[2], options, {}, w), p(path + ".out.weight"),
                   bias(path + ".out"));
  }

  Rows feed_forward(const std::string& path, const Rows& x) const {
    const Rows pre = product(x, p(path + ".up.weight"), bias(path + ".up"));
    const std::size_t width = pre.size() / batch_.rows() / (is_gated(c_.activation) ? 2 : 1);
    return product(hidden(pre, width, c_.activation), p(path + ".down.weight"), bias(path + ".down"));
  }

  /// Each head's numbers times its own (D,D), whose rows are the head's part of w.
  static Rows by_head(const Rows& x, const Rows& w, std::int64_t D) {
    const auto width = static_cast<std::size_t>(D), heads = w.size() / (width * width);
    Rows y(x.size(), X(0));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t h = i / width % heads, d = i % width;
      for (std::size_t e = 0; e < width; ++e) y[i - d + e] += x[i] * w[(h * width + d) * width + e];
    }
    return y;
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
