#include "quern/watch/events.hpp"

#include <stdexcept>

#include "catch.hpp"

using namespace quern;

namespace {

struct Recorder : Observer {
  void on_start(const StartEvent&) override { said += "start "; }
  void on_resume(const ResumeEvent&) override { said += "resume "; }
  void on_step(const StepEvent& event) override { said += "step" + std::to_string(event.step) + " "; }
  void on_eval(const EvalEvent&) override { said += "eval "; }
  void on_checkpoint(const CheckpointEvent&) override { said += "checkpoint "; }
  void on_sample(const SampleEvent&) override { said += "sample "; }
  void on_anomaly(const AnomalyEvent&) override { said += "anomaly "; }
  void on_note(const NoteEvent& event) override { said += "note(" + event.text + ") "; }
  void on_end(const EndEvent&) override { said += "end "; }
  std::string said;
};

struct Broken : Observer {
  void on_step(const StepEvent&) override {
    ++calls;
    throw std::runtime_error("no ink");
  }
  int calls = 0;
};

StepEvent step(std::int64_t number) {
  StepEvent event;
  event.step = number;
  return event;
}

}  // namespace

TEST_CASE("observers forward every event to each in the order of adding") {
  Recorder first;
  auto owned = std::make_unique<Recorder>();
  Recorder& second = *owned;
  Observers observers;
  observers.add(first);
  observers.add(std::move(owned));
  observers.on_start({});
  observers.on_resume({});
  observers.on_step(step(1));
  observers.on_eval({});
  observers.on_checkpoint({});
  observers.on_sample({});
  observers.on_anomaly({});
  observers.on_note({1, "x"});
  observers.on_end({});
  CHECK(first.said == "start resume step1 eval checkpoint sample anomaly note(x) end ");
  CHECK(second.said == first.said);
}

TEST_CASE("an observer that throws is dropped, the others hear of it and miss nothing") {
  Recorder before, after;
  Broken broken;
  Observers observers;
  observers.add(before);
  observers.add(broken);
  observers.add(after);
  observers.on_step(step(1));
  observers.on_step(step(2));
  CHECK(broken.calls == 1);
  const std::string expected = "step1 note(warning: an observer failed and is switched off: no ink) step2 ";
  CHECK(before.said == expected);
  CHECK(after.said == expected);
}
