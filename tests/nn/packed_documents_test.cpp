// Documents packed in one row are read as if each were alone.
#include <algorithm>

#include "quern/nn/model.hpp"
#include "reference/check.hpp"

namespace quern {
namespace {

constexpr std::int64_t V = 7, T = 12;
const std::vector<std::int64_t> documents = {0, 1, 6, 8, 12};  // four of them, and the end

std::vector<float> logits_of(const Model& model, Tokens tokens) {
  Workspace workspace;
  Tape tape(workspace, Mode::infer);
  const Tensor logits = model.logits(tape, tokens).value();
  return {logits.f32(), logits.f32() + logits.size()};
}

/// The loss of some rows, its gradients in the store.
double loss_of(Model& model, Tokens tokens, const std::int32_t* targets) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Loss loss = model.loss(tape, {tokens}, targets, T, 0);
  tape.backward();
  return loss.nll;
}

std::vector<float> gradients_of(const Model& model) {
  std::vector<float> all;
  for (const Parameter& p : model.parameters().all())
    all.insert(all.end(), p.slot.grad.f32(), p.slot.grad.f32() + p.size());
  return all;
}

TEST_CASE("packed documents give the logits and gradients of each alone, whatever the positions") {
  std::vector<std::int32_t> ids, targets, starts;
  for (std::int32_t t = 0; t < T; ++t) ids.push_back((t * t + 2 * t) % V), targets.push_back((3 * t + 1) % V);
  for (std::size_t d = 0; d + 1 < documents.size(); ++d)
    starts.resize(static_cast<std::size_t>(documents[d + 1]), static_cast<std::int32_t>(documents[d]));
  for (const PositionKind position : {PositionKind::learned, PositionKind::sinusoidal, PositionKind::rope,
                                      PositionKind::alibi, PositionKind::none})
    for (const std::int64_t window : {0, 3}) {
      CAPTURE(static_cast<int>(position), window);
      ModelConfig config;
      config.d_model = 16;
      config.n_heads = config.n_layers = 2;
      config.vocab_size = V;
      config.context_length = T;
      config.position = position;
      config.window = window;
      config.init = InitKind::xavier;
      if (window > 0) config.attention = AttentionKind::sliding_window;
      Model model(config, true);
      model.parameters().initialise(3);
      const auto packed = logits_of(model, {ids.data(), 1, T, starts.data()});
      std::vector<float> alone;
      model.parameters().begin_step();
      const double packed_loss = loss_of(model, {ids.data(), 1, T, starts.data()}, targets.data());
      const auto packed_gradients = gradients_of(model);
      model.parameters().begin_step();
      double alone_loss = 0;
      for (std::size_t d = 0; d + 1 < documents.size(); ++d) {
        const Tokens document{ids.data() + documents[d], 1, documents[d + 1] - documents[d]};
        const auto logits = logits_of(model, document);
        alone.insert(alone.end(), logits.begin(), logits.end());
        alone_loss += loss_of(model, document, targets.data() + documents[d]);
      }
      // Sums of at most 16 products in another order, through two blocks.
      CHECK(reference::relative_error(packed, alone) < 1e-5);
      CHECK(packed_loss == Approx(alone_loss).epsilon(1e-6));
      CHECK(reference::relative_error(packed_gradients, gradients_of(model)) < 1e-5);
      CHECK(reference::relative_error(packed, logits_of(model, {ids.data(), 1, T})) > 1e-3);
    }
}

}  // namespace
}  // namespace quern
