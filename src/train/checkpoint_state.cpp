#include "quern/train/checkpoint_state.hpp"

#include <algorithm>

#include "quern/train/checkpoint_manifest.hpp"
#include "quern/train/spikes.hpp"

namespace quern {
namespace {

using nlohmann::json;

constexpr std::int64_t last_step = 0xFFFFFFFF;                // of a run, left out ones included
constexpr std::int64_t most_counted = std::int64_t{1} << 53;  // tokens, bytes
constexpr std::int64_t most_threads = 1 << 16;

/// Reads the fields of an object, and says which one is no good.
class Reader {
 public:
  Reader(const json& object, const std::filesystem::path& path, std::string prefix = {})
      : object_(object), path_(path), prefix_(std::move(prefix)) {
    if (!object.is_object()) fail(prefix_.substr(0, prefix_.size() - 1), "an object", object);
  }

  bool has(const char* name) const { return object_.contains(name); }

  Reader at(const char* name) const { return {field(name), path_, prefix_ + name + "."}; }

  std::int64_t whole(const char* name, std::int64_t least, std::int64_t most) const {
    const json& found = field(name);
    const bool fits = found.is_number_unsigned() ? found.get<std::uint64_t>() <= std::uint64_t{1} << 62
                                                 : found.is_number_integer();
    if (!fits || found.get<std::int64_t>() < least || found.get<std::int64_t>() > most)
      fail(prefix_ + name, "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
           found);
    return found.get<std::int64_t>();
  }
  double number(const char* name) const {
    if (!field(name).is_number()) fail(prefix_ + name, "a number", field(name));
    return field(name).get<double>();
  }
  std::string text(const char* name) const {
    if (!field(name).is_string()) fail(prefix_ + name, "a text", field(name));
    return field(name).get<std::string>();
  }
  std::uint64_t seed(const char* name) const {
    if (!field(name).is_number_unsigned()) fail(prefix_ + name, "a whole number", field(name));
    return field(name).get<std::uint64_t>();
  }
  std::vector<double> numbers(const char* name, std::size_t most) const {
    const json& found = field(name);
    const bool all = found.is_array() && found.size() <= most &&
                     std::all_of(found.begin(), found.end(), [](const json& x) { return x.is_number(); });
    if (!all) fail(prefix_ + name, "a list of at most " + std::to_string(most) + " numbers", found);
    return found.get<std::vector<double>>();
  }

 private:
  const json& field(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) fail_checkpoint(path_, "\"" + prefix_ + name + "\" is missing");
    return *found;
  }
  [[noreturn]] void fail(const std::string& name, const std::string& wanted, const json& found) const {
    std::string text = found.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 40) + "…";
    fail_checkpoint(path_, "\"" + name + "\" must be " + wanted + ", found " + text);
  }

  const json& object_;
  std::filesystem::path path_;
  std::string prefix_;
};

}  // namespace

json CheckpointState::to_json() const {
  json state = {{"step", progress.step}, {"tokens", progress.tokens},  {"evaluated", progress.evaluated},
                {"seed", seed},          {"corpus", corpus},           {"tokenizer", tokenizer},
                {"isa", isa.value()},    {"threads", threads.value()}, {"metrics_bytes", metrics_bytes}};
  state["batches"] = {{"skipped", progress.skipped},
                      {"skips_in_a_row", progress.skips_in_a_row},
                      {"bad_step", progress.bad_step},
                      {"rollbacks", progress.rollbacks}};
  state["recent"] = {{"loss", losses}, {"grad_norm", gradient_norms}};
  if (progress.best_loss) state["best"] = {{"step", progress.best_step}, {"loss", *progress.best_loss}};
  return state;
}

CheckpointState state_of(const LoadedCheckpoint& checkpoint) {
  return state_of(checkpoint.state(), checkpoint.step(), checkpoint.path() / kStateFile);
}

CheckpointState state_of(const json& state, std::int64_t step, const std::filesystem::path& path) {
  const Reader from(state, path);
  CheckpointState found;
  TrainProgress& p = found.progress;
  p.step = step > last_step ? from.whole("step", 0, last_step) : from.whole("step", step, step);
  p.tokens = from.whole("tokens", 0, most_counted);
  p.evaluated = from.whole("evaluated", -1, step);
  if (from.has("best")) {
    p.best_loss = from.at("best").number("loss");
    p.best_step = from.at("best").whole("step", 0, step);
  }
  if (from.has("batches")) {  // older programs knew neither
    const Reader batches = from.at("batches");
    p.skipped = batches.whole("skipped", 0, last_step - step);
    p.skips_in_a_row = batches.whole("skips_in_a_row", 0, step);
    p.bad_step = batches.whole("bad_step", 0, last_step);
    p.rollbacks = batches.whole("rollbacks", 0, last_step);
  }
  if (from.has("recent")) {
    found.losses = from.at("recent").numbers("loss", RecentNumbers::size);
    found.gradient_norms = from.at("recent").numbers("grad_norm", RecentNumbers::size);
  }
  found.seed = from.seed("seed");
  found.corpus = from.text("corpus");
  found.tokenizer = from.text("tokenizer");
  if (from.has("isa")) found.isa = from.text("isa");
  if (from.has("threads")) found.threads = from.whole("threads", 1, most_threads);
  found.metrics_bytes = from.whole("metrics_bytes", 0, most_counted);
  return found;
}

}  // namespace quern
