// A loss of power at any moment of whole runs: started, resumed, taken back to an older checkpoint, rolled
// back, overwritten. What was said to be saved is there, and training goes on from it to the same bits.
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/train/batches.hpp"
#include "quern/train/checkpoint_state.hpp"
#include "quern/train/checkpoint_store.hpp"
#include "quern/train/load.hpp"
#include "quern/train/run_directory.hpp"
#include "quern/train/session.hpp"
#include "quern/watch/jsonl.hpp"
#include "quern/watch/metrics.hpp"
#include "train/crash_states.hpp"

using namespace quern;
using test::TemporaryDirectory;
using test::Tree;

namespace {

namespace fs = std::filesystem;

constexpr const char* one = "runs/one";  // below what is recorded, and below what a state is made in

/// What has been said: from then on no loss of power takes it back.
struct Promise {
  bool begun = false;       // there is a run
  std::int64_t saved = -1;  // this step, or a later one, can be gone on from
  std::string resolved{};   // the run's config; empty while it may be replaced
};

/// What is found after a crash.
struct Seen {
  DirectoryState state = DirectoryState::missing;
  std::string resolved;
  std::string damage;             // of a run: what of it cannot be read
  std::set<std::int64_t> intact;  // checkpoints
  std::string latest;

  std::int64_t newest() const { return intact.empty() ? -1 : *intact.rbegin(); }
};

/// The steps that the metrics tell up to where the checkpoint has them end are all of its own, once.
void check_steps(Files& files, const fs::path& run, const LoadedCheckpoint& checkpoint) {
  const std::int64_t bytes = state_of(checkpoint).metrics_bytes;
  check_metrics(files, run / "metrics.jsonl", bytes);
  std::istringstream lines(test::get(run / "metrics.jsonl").substr(0, static_cast<std::size_t>(bytes)));
  std::int64_t last = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("event") != "step") continue;
    if (event.at("step") != last + 1) throw Error(ErrorKind::file, "a step is missing or told twice");
    ++last;
  }
  if (last != checkpoint.step()) throw Error(ErrorKind::file, "steps are missing");
}

Seen look(const fs::path& run) {
  Files files;
  Seen seen;
  seen.state = directory_state(files, run);
  if (seen.state != DirectoryState::run) return seen;
  try {
    seen.resolved = test::get(run / "config.resolved.json");
    load_run_config(files, run);
    Tokenizer::load(run / "tokenizer.json");
    for (const char* name : {"config.json", "env.json"})
      if (!nlohmann::json::accept(test::get(run / name))) throw Error(ErrorKind::file, name);
    const CheckpointStore store(files, run);
    for (const std::int64_t step : store.steps()) {
      const LoadedCheckpoint checkpoint = open_checkpoint(files, store.path_of(step));
      if (step == store.steps().front()) check_steps(files, run, checkpoint);
      seen.intact.insert(step);
    }
    if (fs::exists(run / "latest")) seen.latest = test::get(run / "latest");
  } catch (const std::exception& error) {
    seen.damage = error.what();
  }
  return seen;
}

bool keeps(const Seen& seen, const Promise& promise) {
  if (seen.state == DirectoryState::foreign || !seen.damage.empty()) return false;
  if (promise.begun && seen.state != DirectoryState::run) return false;
  if (promise.begun && !promise.resolved.empty() && seen.resolved != promise.resolved) return false;
  if (seen.newest() < promise.saved) return false;
  if (promise.saved < 0 && (seen.state != DirectoryState::run || seen.latest.empty())) return true;
  // The file is a hint, but no wrong one.
  if (!seen.latest.starts_with("ckpt/") || !seen.latest.ends_with('\n')) return false;
  const auto hinted = checkpoint_step(seen.latest.substr(5, seen.latest.size() - 6));
  return hinted && *hinted >= promise.saved && seen.intact.contains(*hinted);
}

/// What is trained: a text, or lines with a number of which one spoils its batch.
struct Work {
  TemporaryDirectory directory;
  std::vector<std::string> sets;

  Work() {
    std::string text;
    for (int i = 0; i < 200; ++i) text += static_cast<char>('a' + i * i % 5);
    test::put(directory / "text", text);
    sets = {"model.d_model=2",     "model.n_layers=1",          "model.context_length=4", "run.batch_size=1",
            "run.eval_interval=0", "run.checkpoint_interval=1", "run.keep_checkpoints=2", "run.threads=1"};
  }
  TrainRequest request(const fs::path& root, std::vector<std::string> more = {}) const {
    TrainRequest request;
    request.sets = sets;
    request.sets.insert(request.sets.end(), more.begin(), more.end());
    request.run_dir = root / one;
    return request;
  }
  /// Whose third step has the line that spoils it.
  std::vector<std::string> regression(std::int64_t steps) const {
    std::vector<std::string> these = {"model.architecture=encoder",
                                      "model.n_heads=1",
                                      "data.task=regression",
                                      "data.order=shuffle",
                                      "run.on_nonfinite=rollback",
                                      "optim.grad_clip=0",
                                      "data.text=" + (directory / "values.tsv").string(),
                                      "run.max_steps=" + std::to_string(steps),
                                      "schedule.decay_steps=4"};
    const auto write = [&](int bad) {
      std::string lines;
      for (int i = 0; i < 20; ++i) lines += "ab\t" + std::string(i == bad ? "1e30" : "1") + "\n";
      test::put(directory / "values.tsv", lines);
    };
    write(-1);
    std::vector<std::string> all = sets;
    all.insert(all.end(), these.begin(), these.end());
    const RunPlan plan = plan_run({}, all);
    const std::string batch = TrainBatches(plan.config, plan.data).describe(2);
    write(std::stoi(batch.substr(batch.rfind(' '))));
    return these;
  }
  std::vector<std::string> recurrent(std::int64_t steps) const {
    return {"model.architecture=rnn", "data.text=" + (directory / "text").string(),
            "run.max_steps=" + std::to_string(steps), "schedule.decay_steps=3"};
  }
};

/// Runs on a disk that is recorded, and the promises that they make on the way.
class Story {
 public:
  Story() : files_(disk_.path()) {}

  const fs::path& root() const { return disk_.path(); }

  /// Trains; beforehand `keeps` of the older promises still holds.
  void go(const TrainRequest& request, const Promise& keeps) {
    promise(keeps);
    train(files_, request,
          [&](Observers& observers, const Config&, const fs::path&) { observers.add(watcher_); });
  }
  /// An empty file of somebody else's.
  void put(const fs::path& path) {
    files_.create(root() / path).close();
    others_ = operations().size();
    files_.sync_directory((root() / path).parent_path());
  }

  /// The fsyncs but for those that only try whether the disk can be written to.
  std::vector<std::size_t> syncs() const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < operations().size(); ++i)
      if (operations()[i].kind == test::Operation::Kind::sync && i != others_ &&
          operations()[i].path.find("/.tmp-probe-") == std::string::npos)
        found.push_back(i);
    return found;
  }
  std::string describe(std::size_t operation) const {
    return std::to_string(operation) + ": " + operations()[operation].path;
  }

  /// Whether every state after every operation keeps the promises, when one fsync is left out. `also` looks
  /// at states that are seen for the first time.
  bool holds(std::optional<std::size_t> left_out, const std::function<void(const fs::path&)>& also = {}) {
    test::CrashModel model;
    Promise promised;
    for (std::size_t i = 0; i <= operations().size(); ++i) {
      if (const auto now = promises_.find(i); now != promises_.end()) promised = now->second;
      // Before the one that is left out everything is as it is with it.
      const bool good = (left_out && i <= *left_out) || model.visit_states([&](const Tree& tree) {
        const Seen& seen = look_at(tree, also);
        if (keeps(seen, promised)) return true;
        if (!left_out) UNSCOPED_INFO("after " << i << ": " << seen.damage);
        return false;
      });
      if (!good) return false;
      if (i < operations().size()) model.apply(operations()[i], left_out == i);
    }
    return true;
  }

 private:
  class Watcher final : public Observer {
   public:
    explicit Watcher(Story& story) : story_(story) {}
    void on_start(const StartEvent&) override { begun(); }
    void on_resume(const ResumeEvent&) override { begun(); }
    void on_checkpoint(const CheckpointEvent& event) override {
      story_.now_.saved = event.step;
      story_.promise(story_.now_);
    }

   private:
    void begun() {
      story_.now_.begun = true;
      story_.now_.resolved = test::get(story_.root() / one / "config.resolved.json");
      story_.promise(story_.now_);
    }
    Story& story_;
  };

  const std::vector<test::Operation>& operations() const { return files_.operations; }
  void promise(const Promise& promised) {
    now_ = promised;
    promises_[operations().size()] = promised;
  }
  const Seen& look_at(const Tree& tree, const std::function<void(const fs::path&)>& also) {
    Tree of_interest;  // not what lies in the leftovers of a save or of what was deleted
    for (const auto& [path, data] : tree)
      if (path.ends_with('/') ||
          (path.find("/.tmp-step-") == path.npos && path.find("/.trash-") == path.npos))
        of_interest.emplace(path, data);
    const auto [entry, is_new] = seen_.try_emplace(std::move(of_interest));
    if (!is_new) return entry->second;
    const TemporaryDirectory disk;
    test::materialise(entry->first, disk.path());
    entry->second = look(disk / one);
    if (also) also(disk.path());
    return entry->second;
  }

  TemporaryDirectory disk_;
  test::RecordingFiles files_;
  Watcher watcher_{*this};
  Promise now_;
  std::optional<std::size_t> others_;        // somebody else's fsync
  std::map<std::size_t, Promise> promises_;  // from this operation on
  std::map<Tree, Seen> seen_;
};

/// Files on a disk that needs no fsync.
class FastFiles final : public Files {
 protected:
  int system_sync(int) override { return 0; }
};

/// Holds the story against its promises, and trains to the end from each fourth state.
void check(Story& story, const Work& work, const std::vector<std::string>& sets, std::int64_t steps) {
  const fs::path last = fs::path(one) / "ckpt" / checkpoint_name(steps);
  const auto weights = [&](const fs::path& root) {
    return test::get(root / last / "model.safetensors") + test::get(root / last / "optim.safetensors");
  };
  const std::string wanted = weights(story.root());
  CHECK(wanted.size() > 1000);
  int states = 0;
  const bool kept = story.holds(std::nullopt, [&](const fs::path& disk) {
    if (states++ % 4 != 0) return;
    TrainRequest request = work.request(disk, sets);
    request.resume = "auto";
    FastFiles files;
    train(files, request);
    CHECK((weights(disk) == wanted));
  });
  CHECK(kept);
  CHECK(states > 100);
  for (const std::size_t sync : story.syncs()) {
    CAPTURE(story.describe(sync));
    CHECK_FALSE(story.holds(sync));
  }
}

}  // namespace

TEST_CASE("power loss: a run, its resume, and its way back to an older checkpoint") {
  const Work work;
  Story story;
  story.go(work.request(story.root(), work.recurrent(2)), {});
  TrainRequest resume;
  resume.resume = (story.root() / one).string();
  resume.sets = {"run.max_steps=3"};
  story.go(resume, {true, 2});
  resume.resume = (story.root() / one / "ckpt/step-000000002").string();
  story.go(resume, {true, 2});
  check(story, work, work.recurrent(3), 3);
}

TEST_CASE("power loss: a rollback") {
  const Work work;
  Story story;
  const auto sets = work.regression(4);
  story.go(work.request(story.root(), sets), {});
  CHECK(read_run(story.root() / one).anomalies.size() == 1);
  check(story, work, sets, 4);
}

TEST_CASE("power loss: a run that takes another's place, with somebody else's file among its checkpoints") {
  const Work work;
  Story story;
  story.go(work.request(story.root(), work.recurrent(1)), {});
  story.put(fs::path(one) / "ckpt/mine.txt");
  TrainRequest overwrite = work.request(story.root(), work.recurrent(2));
  overwrite.overwrite = true;
  story.go(overwrite, {});
  check(story, work, work.recurrent(2), 2);
}
