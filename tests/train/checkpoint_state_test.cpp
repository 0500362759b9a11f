// state.json: what is written is read again, and what no run can have written is refused.
#include "quern/train/checkpoint_state.hpp"

#include "base/temporary_directory.hpp"
#include "checkpoint_fixture.hpp"
#include "quern/train/spikes.hpp"

using namespace quern;
using quern::test::contains;
using quern::test::error_of;
using quern::test::TemporaryDirectory;
using quern::test::TinyCheckpoint;

namespace {

constexpr std::int64_t step = 7;

CheckpointState some_state() {
  CheckpointState state;
  state.progress = {step, 700, 5, 1.25, 5, 3, 2, 9, 1};
  state.losses = {2.5, 2.25}, state.gradient_norms = {0.5};
  state.seed = 18'446'744'073'709'551'615U;
  state.corpus = "aa", state.tokenizer = "bb", state.isa = "v3", state.threads = 2;
  state.metrics_bytes = 4321;
  return state;
}

/// What a checkpoint of that state says, its checksums right.
CheckpointState read_back(const nlohmann::json& state) {
  const TemporaryDirectory directory;
  Files files;
  CheckpointStore store(files, directory.path());
  CheckpointData data = TinyCheckpoint(step).data();
  data.state = state;
  store.save(data);
  return state_of(open_checkpoint(files, store.path_of(step)));
}

}  // namespace

TEST_CASE("the state of a checkpoint is read as it was written") {
  const CheckpointState state = some_state();
  CHECK(read_back(state.to_json()).to_json() == state.to_json());

  CheckpointState fresh = some_state();
  fresh.progress = {step, 0, -1, std::nullopt, 0, 0, 0, 0, 0};
  fresh.losses = fresh.gradient_norms = {};
  CHECK(read_back(fresh.to_json()).to_json() == fresh.to_json());
}

TEST_CASE("a state of an older program knows neither batches nor machine") {
  nlohmann::json state = some_state().to_json();
  for (const char* name : {"batches", "recent", "isa", "threads", "best"}) state.erase(name);
  const CheckpointState found = read_back(state);
  CHECK(found.progress.skipped == 0);
  CHECK(!found.progress.best_loss);
  CHECK(!found.isa);
  CHECK(!found.threads);
}

TEST_CASE("a state that no run can have written is refused, its field named") {
  const auto refused = [](const char* pointer, const nlohmann::json& value, const std::string& what) {
    nlohmann::json state = some_state().to_json();
    state[nlohmann::json::json_pointer(pointer)] = value;
    CAPTURE(pointer, value);
    const Error error = error_of([&] { read_back(state); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(std::string(error.what()) == "the checkpoint is damaged: " + what);
    CHECK(contains(error.place, "state.json"));
  };
  const std::int64_t huge = std::int64_t{1} << 62;
  refused("/step", 8, "\"step\" must be a whole number from 7 to 7, found 8");
  refused("/tokens", -1, "\"tokens\" must be a whole number from 0 to 9007199254740992, found -1");
  refused("/tokens", 1.5, "\"tokens\" must be a whole number from 0 to 9007199254740992, found 1.5");
  refused("/tokens", nullptr, "\"tokens\" must be a whole number from 0 to 9007199254740992, found null");
  refused("/tokens", 18'446'744'073'709'551'615U,
          "\"tokens\" must be a whole number from 0 to 9007199254740992, found 18446744073709551615");
  refused("/evaluated", 8, "\"evaluated\" must be a whole number from -1 to 7, found 8");
  refused("/best", 3, "\"best\" must be an object, found 3");
  refused("/best/loss", "low", "\"best.loss\" must be a number, found \"low\"");
  refused("/best/step", 8, "\"best.step\" must be a whole number from 0 to 7, found 8");
  refused("/batches", nlohmann::json::array(), "\"batches\" must be an object, found []");
  refused("/batches/skipped", huge,
          "\"batches.skipped\" must be a whole number from 0 to 4294967288, found 4611686018427387904");
  refused("/batches/skipped", -huge,
          "\"batches.skipped\" must be a whole number from 0 to 4294967288, found -4611686018427387904");
  refused("/batches/skipped", 4294967289,
          "\"batches.skipped\" must be a whole number from 0 to 4294967288, found 4294967289");
  refused("/batches/bad_step", huge,
          "\"batches.bad_step\" must be a whole number from 0 to 4294967295, found 4611686018427387904");
  refused("/batches/rollbacks", huge,
          "\"batches.rollbacks\" must be a whole number from 0 to 4294967295, found 4611686018427387904");
  refused("/recent", nlohmann::json::array(), "\"recent\" must be an object, found []");
  refused("/recent/loss", {1, "two"},
          "\"recent.loss\" must be a list of at most 128 numbers, found [1,\"two\"]");
  refused("/recent/grad_norm", std::vector<double>(RecentNumbers::size + 1),
          "\"recent.grad_norm\" must be a list of at most 128 numbers, found "
          "[0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0…");
  refused("/seed", -1, "\"seed\" must be a whole number, found -1");
  refused("/corpus", 1, "\"corpus\" must be a text, found 1");
  refused("/isa", 5, "\"isa\" must be a text, found 5");
  refused("/threads", 0, "\"threads\" must be a whole number from 1 to 65536, found 0");
  refused("/metrics_bytes", -5,
          "\"metrics_bytes\" must be a whole number from 0 to 9007199254740992, found -5");

  for (const char* name : {"step", "tokens", "evaluated", "seed", "corpus", "tokenizer", "metrics_bytes"}) {
    nlohmann::json state = some_state().to_json();
    state.erase(name);
    const Error error = error_of([&] { read_back(state); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(std::string(error.what()) == "the checkpoint is damaged: \"" + std::string(name) + "\" is missing");
  }
}

TEST_CASE("the steps and the batches of a state are those that a run can count") {
  constexpr std::int64_t last = 4294967295;
  const auto state_at = [](std::int64_t at, std::int64_t skipped) {
    nlohmann::json state = some_state().to_json();
    state["step"] = at, state["batches"]["skipped"] = skipped;
    return state_of(state, at, "state.json").progress.skipped;
  };
  CHECK(state_at(last, 0) == 0);
  CHECK(state_at(last - 5, 5) == 5);
  CHECK(std::string(error_of([&] { state_at(last - 5, 6); }).what()) ==
        "the checkpoint is damaged: \"batches.skipped\" must be a whole number from 0 to 5, found 6");
  const Error late = error_of([&] { state_at(last + 1, 0); });
  CHECK(late.kind == ErrorKind::file);
  CHECK(std::string(late.what()) ==
        "the checkpoint is damaged: \"step\" must be a whole number from 0 to 4294967295, found 4294967296");
}
