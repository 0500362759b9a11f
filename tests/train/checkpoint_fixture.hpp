// A checkpoint of a few dozen bytes whose values tell which step it is of.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "quern/base/check.hpp"
#include "quern/train/checkpoint_store.hpp"

namespace quern::test {

struct TinyCheckpoint {
  explicit TinyCheckpoint(std::int64_t step_) : step(step_) {
    for (std::size_t i = 0; i < weight.size(); ++i)
      weight[i] = static_cast<float>(step_) + 0.5f * static_cast<float>(i);
    for (std::size_t i = 0; i < moment.size(); ++i) moment[i] = -weight[i];
  }

  CheckpointData data() const {
    return {step,
            {{"wte.weight", safetensors::DType::F32, {3, 2}, weight.data()},
             {"ln_f.bias", safetensors::DType::F32, {2}, weight.data() + 1}},
            {{"wte.weight.m", safetensors::DType::F32, {3, 2}, moment.data()}},
            {{"step", step}, {"loss", 0.1}, {"best", nullptr}}};
  }

  std::int64_t step;
  std::vector<float> weight = std::vector<float>(6);
  std::vector<float> moment = std::vector<float>(6);
};

inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  return Error(ErrorKind::io, "");
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Reads everything back and holds it against the fixture of that step.
inline void require_holds(const LoadedCheckpoint& loaded, std::int64_t step) {
  const TinyCheckpoint expected(step);
  REQUIRE(loaded.step() == step);
  REQUIRE(loaded.state() == expected.data().state);
  std::vector<float> weight(6), bias(2), moment(6);
  loaded.read_model(
      std::vector<safetensors::TensorTarget>{{"wte.weight", safetensors::DType::F32, {3, 2}, weight.data()},
                                             {"ln_f.bias", safetensors::DType::F32, {2}, bias.data()}});
  loaded.read_optim(std::vector<safetensors::TensorTarget>{
      {"wte.weight.m", safetensors::DType::F32, {3, 2}, moment.data()}});
  REQUIRE(weight == expected.weight);
  REQUIRE(bias == std::vector<float>{expected.weight[1], expected.weight[2]});
  REQUIRE(moment == expected.moment);
}

}  // namespace quern::test
