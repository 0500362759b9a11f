// What is shown of a run: the config's section "watch".
#pragma once

#include <cstdint>
#include <string>

#include "quern/base/fields.hpp"

namespace quern {

struct WatchConfig {
  std::int64_t log_interval = 10;
  std::int64_t sample_interval = 0;
  std::string sample_prompt;
  std::int64_t sample_tokens = 200;
  bool tensorboard = false;
  std::int64_t histogram_interval = 0;

  void fields(FieldList& f) {
    f("log_interval", log_interval, between(1, 1e9),
      "Steps between two lines of progress where there is no terminal.");
    f("sample_interval", sample_interval, between(0, 1e9),
      "Steps between two samples of text; 0 means none.");
    f("sample_prompt", sample_prompt, "What those samples begin with.");
    f("sample_tokens", sample_tokens, between(1, 1e9), "Tokens of such a sample.");
    f("tensorboard", tensorboard, "Write event files for TensorBoard into the run's tb/.");
    f("histogram_interval", histogram_interval, between(0, 1e9),
      "Steps between two histograms of each parameter and its gradient, for TensorBoard; 0 means none.");
  }
};

}  // namespace quern
