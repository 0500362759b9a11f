#include "quern/watch/events.hpp"

#include <exception>
#include <utility>

namespace quern {

void Observers::add(std::unique_ptr<Observer> observer) {
  add(*observer);
  owned_.push_back(std::move(observer));
}

template <class Event>
void Observers::forward(void (Observer::*function)(const Event&), const Event& event, std::int64_t step) {
  for (std::size_t i = 0; i < list_.size();) {
    std::string what;
    try {
      (list_[i]->*function)(event);
      ++i;
      continue;
    } catch (const std::exception& error) {
      what = error.what();
    } catch (...) {
      what = "unknown exception";
    }
    list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(i));
    on_note({step, "warning: an observer failed and is switched off: " + what});
    i = 0;  // on_note may have dropped others; nobody must be told the same event twice
    break;
  }
}

}  // namespace quern
