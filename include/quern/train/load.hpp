#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "quern/base/files.hpp"
#include "quern/nn/model.hpp"
#include "quern/text/tokenizer.hpp"
#include "quern/train/checkpoint_store.hpp"
#include "quern/train/config.hpp"

namespace quern {

/// A trained model, ready to evaluate or sample.
struct LoadedRun {
  Config config;  // as resolved when the run was created; model.vocab_size is the true size
  Tokenizer tokenizer;
  std::unique_ptr<Model> model;
  std::int64_t step = 0;
  std::vector<std::string> warnings;  // newer checkpoints that were passed over, and why
};

/// The model of a run at `checkpoint`: "best" (lowest validation loss among the checkpoints there; the newest
/// when none was evaluated), "last" (the newest that is intact) or a step's number. Throws Error(run) when
/// `run` is no run or has no such checkpoint, Error(file) when a named one is damaged.
LoadedRun load_run(Files& files, const std::filesystem::path& run, const std::string& checkpoint);

/// What a model of this run reads of a prompt: with data.pack documents what stands behind the last
/// end_of_text, since nothing before it is seen there in training.
std::string_view read_part(const LoadedRun& run, std::string_view prompt);

/// The config that a run was created with.
Config load_run_config(Files& files, const std::filesystem::path& run);

/// Throws Error(file), naming `path`, where the config of a run asks for what its tokenizer or its labels do
/// not have: the files of a run may come from somebody else.
void check_settled(const Config& config, const Tokenizer& tokenizer, const std::filesystem::path& path);

/// The config as it stands in a run: QUERN_THREADS changes nothing in it. ErrorKind::file when it is missing.
Config stored_config(Files& files, const std::filesystem::path& run);

}  // namespace quern
