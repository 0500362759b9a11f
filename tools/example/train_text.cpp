// Trains a small Transformer on a text through the library, and prints what it writes then.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "quern/base/check.hpp"
#include "quern/infer/generate.hpp"
#include "quern/train/evaluate.hpp"
#include "quern/train/session.hpp"
#include "quern/train/trainer.hpp"

namespace {

void train(const std::string& text, const std::string& steps) {
  // A config as the command line makes it: the defaults, and what differs. All its mistakes are one
  // exception.
  const auto [config, data] = quern::plan_run(
      {}, {"data.text=" + text, "data.tokenizer=char", "run.max_steps=" + steps, "model.d_model=64",
           "model.n_layers=2", "model.n_heads=4", "model.context_length=64", "schedule.warmup_steps=20"});

  // The model owns its numbers; a workspace owns those of a step.
  quern::Model model(config.model, true, quern::Type::f32);
  model.parameters().initialise(config.run.seed);
  quern::Workspace workspace;

  // Which windows a step reads is a pure function of the config and the step.
  quern::TrainBatches batches(config, data);
  for (std::int64_t step = 1; step <= config.run.max_steps; ++step) {
    const quern::StepResult result = quern::train_step(model, workspace, batches, config, step);
    if (step % 50 == 0 || step == 1)
      std::printf("step %lld: loss %.4f\n", static_cast<long long>(step), result.loss);
  }
  if (auto validation = quern::evaluation_batches(config, data)) {
    const auto found = quern::evaluate(config, model, workspace, *validation, [] { return false; });
    std::printf("validation loss %.4f\n", found->loss);
  }

  quern::GenerateOptions options;
  options.max_new_tokens = 200;
  const auto prompt = data.tokenizer.encode("\n", {"the prompt", quern::ErrorKind::config});
  quern::generate(
      model, data.tokenizer, prompt, options,
      [](std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); },
      [] { return false; });
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "train_text TEXT STEPS\n");
    return 2;
  }
  try {
    train(argv[1], argv[2]);
  } catch (const quern::Error& error) {
    std::fputs(quern::format(error).c_str(), stderr);
    return static_cast<int>(error.kind);
  }
}
