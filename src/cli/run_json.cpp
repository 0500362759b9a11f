#include "run_json.hpp"

#include <nlohmann/json.hpp>

namespace quern::cli {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

Json run_json(const ListedRun& run) {
  Json object = {{"name", run.name}, {"path", run.path.string()}, {"status", run.status}};
  if (run.summary) {
    const RunSummary& summary = *run.summary;
    object["step"] = summary.step;
    object["max_steps"] = or_null(summary.max_steps);
    object["best_val"] =
        summary.best ? Json({{"loss", summary.best->loss}, {"step", summary.best->step}}) : Json();
    object["train_loss"] = or_null(summary.train_loss);
    object["parameters"] = or_null(summary.parameters);
    object["tokens"] = summary.tokens;
    object["seconds"] = summary.seconds;
    object["started"] = summary.started;
  } else {
    for (const char* name :
         {"step", "max_steps", "best_val", "train_loss", "parameters", "tokens", "seconds", "started"})
      object[name] = nullptr;
  }
  object["problems"] = run.problems;
  return object;
}

}  // namespace quern::cli
