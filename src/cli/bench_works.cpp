// The works of quern bench: training steps on random tokens, and decoding with a cache.
#include <algorithm>
#include <array>
#include <chrono>

#include "bench.hpp"
#include "quern/base/parallel.hpp"
#include "quern/base/process.hpp"
#include "quern/base/rng.hpp"
#include "quern/nn/cache.hpp"
#include "quern/train/trainer.hpp"

namespace quern::cli {

namespace {

struct Work {
  const char* name;
  std::int64_t layers, heads, d_model, context, batch, vocabulary;
  double dropout;
  std::int64_t steps;
  Architecture architecture = Architecture::decoder;
};

constexpr std::array works = {
    Work{"A", 4, 4, 128, 64, 12, 65, 0, 60},
    Work{"B", 6, 6, 384, 256, 64, 65, 0.2, 5},
    Work{"B0", 6, 6, 384, 256, 64, 65, 0, 5},
    Work{"C64", 12, 12, 768, 64, 4, 50304, 0, 8},
    Work{"C1024", 12, 12, 768, 1024, 4, 50304, 0, 4},
    Work{"L2k", 2, 4, 256, 2048, 1, 256, 0, 10},
    Work{"L4k", 2, 4, 256, 4096, 1, 256, 0, 8},
    Work{"L8k", 2, 4, 256, 8192, 1, 256, 0, 6},
    Work{"L16k", 2, 4, 256, 16384, 1, 256, 0, 4},
    Work{"decode", 12, 12, 768, 1024, 1, 50304, 0, 64},
    Work{"T", 2, 4, 64, 32, 64, 64, 0, 60, Architecture::encoder_decoder},
    Work{"T256", 3, 4, 256, 64, 32, 8000, 0, 10, Architecture::encoder_decoder},
};

const Work& find(const std::string& name) {
  return *std::find_if(works.begin(), works.end(), [&](const Work& w) { return w.name == name; });
}

ModelConfig model_of(const Work& work) {
  ModelConfig model;
  model.n_layers = work.layers;
  model.n_heads = work.heads;
  model.d_model = work.d_model;
  model.context_length = work.context;
  model.vocab_size = work.vocabulary;
  model.dropout = model.attention_dropout = work.dropout;
  model.bias = false;
  model.architecture = work.architecture;
  if (work.architecture != Architecture::encoder_decoder) return model;
  model.bias = true;  // the 2017 paper's
  model.norm_placement = NormPlacement::post;
  model.position = PositionKind::sinusoidal;
  model.activation = Activation::relu;
  model.tie_embeddings = false;
  return model;
}

TokenStore random_tokens(const Config& config) {
  const std::int64_t vocabulary = config.model.vocab_size;
  const auto count =
      static_cast<std::size_t>(std::max<std::int64_t>(1'000'000, 2 * config.model.context_length));
  const auto fill = [&](auto tokens) {
    const RandomStream stream(config.run.seed, site_hash("bench"), 0);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<typename decltype(tokens)::value_type>(
          below(static_cast<std::uint64_t>(vocabulary), stream.at(i, 0)[0], 0));
    return TokenStore(std::move(tokens));
  };
  return vocabulary <= 65536 ? fill(std::vector<std::uint16_t>(count))
                             : fill(std::vector<std::int32_t>(count));
}

/// Questions and answers of random tokens, each as long as the context.
Examples random_examples(const Config& config, const TokenStore& tokens) {
  Examples examples;
  const auto length = static_cast<std::size_t>(config.model.context_length);
  examples.get = [&tokens, length](Split, std::int64_t index, Example& to) {
    const TokenView all = view(tokens);
    for (std::vector<std::int32_t>* row : {&to.source, &to.inputs, &to.targets}) {
      row->resize(length);
      const auto n = static_cast<std::int64_t>(length);
      all.copy(index++ * 37 % (all.size() - n), n, row->data());
    }
  };
  return examples;
}

TrainBatches random_batches(const Config& config, const TokenStore& tokens, const Examples& examples) {
  const RunConfig& run = config.run;
  if (config.model.architecture == Architecture::encoder_decoder)
    return TrainBatches(ExampleSampler(examples, {WindowOrder::random, run.seed, run.batch_size, 0,
                                                  run.grad_accumulation, config.model.context_length}));
  return TrainBatches(WindowSampler(view(tokens), config.model.context_length, WindowOrder::random, run.seed,
                                    run.batch_size * run.grad_accumulation),
                      run.batch_size);
}

/// Runs `step` n times; minimum and median leave out the warm-up: the first step, or the first three of eight
/// and more.
template <class Step>
WorkResult time_steps(const Work& work, Precision precision, std::int64_t n, std::int64_t tokens,
                      Step&& step) {
  std::vector<double> ms;
  WorkResult result{work.name, std::string(enum_name(precision)), thread_count()};
  for (std::int64_t i = 0; i < n; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    step(i);
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    if (i == 0) result.seconds_to_first_step = process_age_seconds();
  }
  ms.erase(ms.begin(), ms.begin() + (n < 8 ? (n > 1 ? 1 : 0) : 3));
  std::sort(ms.begin(), ms.end());
  result.ms_min = ms.front();
  result.ms_median = ms[ms.size() / 2];
  result.tokens_per_second = static_cast<double>(tokens) / (result.ms_median / 1000);
  result.peak_rss_mb = static_cast<double>(peak_resident_bytes()) / (1 << 20);
  return result;
}

WorkResult train_work(const Work& work, Precision precision, std::int64_t steps) {
  Config config = work_config(work.name);
  config.run.precision = precision;
  RandomTraining training(config);
  double loss = 0;
  WorkResult result = time_steps(work, precision, steps, work.batch * work.context,
                                 [&](std::int64_t) { loss = training.step().loss; });
  result.loss = loss;
  return result;
}

WorkResult decode_work(const Work& work, Precision precision, std::int64_t steps) {
  Model model(model_of(work), false, type_of(precision));
  model.parameters().initialise(1337);
  KVCache cache(model.config(), 1, work.context, type_of(precision));
  Workspace workspace;
  std::int32_t token = 0;
  return time_steps(work, precision, steps, 1, [&](std::int64_t) {
    Tape tape(workspace, Mode::infer);
    const Tensor logits = model.last_logits(tape, {&token, 1, 1}, &cache).value();
    token = static_cast<std::int32_t>(std::max_element(logits.f32(), logits.f32() + work.vocabulary) -
                                      logits.f32());
  });
}

}  // namespace

std::vector<std::string> work_names() {
  std::vector<std::string> names;
  for (const Work& work : works) names.emplace_back(work.name);
  return names;
}

bool is_work(const std::string& name) {
  return std::any_of(works.begin(), works.end(), [&](const Work& w) { return w.name == name; });
}

Config work_config(const std::string& name) {
  const Work& work = find(name);
  Config config;
  config.model = model_of(work);
  config.optim.betas = {0.9, 0.99};
  config.schedule.kind = ScheduleKind::constant;
  config.run.name = name;
  config.run.batch_size = work.batch;
  return config;
}

RandomTraining::RandomTraining(const Config& config)
    : config_(config),
      tokens_(random_tokens(config)),
      examples_(random_examples(config_, tokens_)),
      model_(config.model, true, type_of(config.run.precision)),
      batches_(random_batches(config_, tokens_, examples_)) {
  model_.parameters().initialise(config.run.seed);
}

StepResult RandomTraining::step() { return train_step(model_, workspace_, batches_, config_, ++step_); }

WorkResult run_work(const std::string& name, Precision precision, std::int64_t steps) {
  const Work& work = find(name);
  if (steps == 0) steps = work.steps;
  if (name == "decode") return decode_work(work, precision, std::min(steps, work.context));
  return train_work(work, precision, steps);
}

}  // namespace quern::cli
