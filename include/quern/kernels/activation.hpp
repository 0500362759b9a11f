#pragma once

namespace quern {

/// The feed-forward's activation. gelu is the tanh form of Hendrycks & Gimpel 2016 (1606.08415), gelu_erf the exact
/// one.
enum class Activation { gelu, gelu_erf, relu };

}  // namespace quern
