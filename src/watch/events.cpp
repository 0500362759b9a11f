#include "quern/watch/events.hpp"

#include <exception>
#include <new>
#include <utility>

namespace quern {

void Observers::add(std::unique_ptr<Observer> observer) {
  add(*observer);
  owned_.push_back(std::move(observer));
}

template <class Event>
void Observers::forward(void (Observer::*function)(const Event&), const Event& event, std::int64_t step) {
  std::vector<std::string> failures;
  std::erase_if(list_, [&](Observer* observer) {
    try {
      (observer->*function)(event);
      return false;
    } catch (const std::bad_alloc&) {
      throw;  // the process has no memory; that is not this observer's fault
    } catch (const std::exception& error) {
      failures.push_back(error.what());
    } catch (...) {
      failures.push_back("unknown exception");
    }
    return true;
  });
  for (const std::string& what : failures) {
    on_note({step, "warning: an observer failed and is switched off: " + what, true});
  }
}

void Observers::on_start(const StartEvent& event) { forward(&Observer::on_start, event, event.step); }
void Observers::on_resume(const ResumeEvent& event) {
  forward(&Observer::on_resume, event, event.start.step);
}
void Observers::on_step(const StepEvent& event) { forward(&Observer::on_step, event, event.step); }
void Observers::on_eval(const EvalEvent& event) { forward(&Observer::on_eval, event, event.step); }
void Observers::on_checkpoint(const CheckpointEvent& event) {
  forward(&Observer::on_checkpoint, event, event.step);
}
void Observers::on_sample(const SampleEvent& event) { forward(&Observer::on_sample, event, event.step); }
void Observers::on_distribution(const DistributionEvent& event) {
  forward(&Observer::on_distribution, event, event.step);
}
void Observers::on_anomaly(const AnomalyEvent& event) { forward(&Observer::on_anomaly, event, event.step); }
void Observers::on_note(const NoteEvent& event) { forward(&Observer::on_note, event, event.step); }
void Observers::on_end(const EndEvent& event) { forward(&Observer::on_end, event, event.step); }

}  // namespace quern
