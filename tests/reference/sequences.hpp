// Operations on whole sequences: mixtures of their rows, their first rows, two side by side, tanh.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quern::reference {

/// y(b,r,c) = sum over s < lengths[b] of e(r,s) x(b,s,c); x (B,S,C), e (R,P).
template <class T>
std::vector<T> sequence_projection(const std::vector<T>& x, const std::vector<T>& e,
                                   const std::vector<std::int32_t>& lengths, std::size_t S, std::size_t C,
                                   std::size_t P) {
  const std::size_t B = lengths.size(), R = e.size() / P;
  std::vector<T> y(B * R * C, T(0));
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t s = 0; s < static_cast<std::size_t>(lengths[b]); ++s)
        for (std::size_t c = 0; c < C; ++c) y[(b * R + r) * C + c] += e[r * P + s] * x[(b * S + s) * C + c];
  return y;
}

/// y(b,c) = x(b,0,c); x (B,T,C).
template <class T>
std::vector<T> first_position(const std::vector<T>& x, std::size_t length, std::size_t C) {
  std::vector<T> y;
  for (std::size_t row = 0; row < x.size(); row += length * C)
    y.insert(y.end(), x.begin() + static_cast<std::ptrdiff_t>(row),
             x.begin() + static_cast<std::ptrdiff_t>(row + C));
  return y;
}

/// The rows of a (R,M) and b (R,N) side by side.
template <class T>
std::vector<T> concatenate(const std::vector<T>& a, const std::vector<T>& b, std::size_t M, std::size_t N) {
  std::vector<T> y;
  for (std::size_t r = 0; r < a.size() / M; ++r) {
    for (std::size_t c = 0; c < M; ++c) y.push_back(a[r * M + c]);
    for (std::size_t c = 0; c < N; ++c) y.push_back(b[r * N + c]);
  }
  return y;
}

/// tanh of each number.
template <class T>
std::vector<T> tanh_of(const std::vector<T>& x) {
  using std::tanh;
  std::vector<T> y;
  for (const T& number : x) y.push_back(tanh(number));
  return y;
}

}  // namespace quern::reference
