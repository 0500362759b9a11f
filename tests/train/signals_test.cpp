#include "quern/train/signals.hpp"

#include <csignal>

#include "catch.hpp"

using namespace quern;

TEST_CASE("the first signal asks for a stop, SIGUSR1 for a save, and a guard's end forgets its handlers") {
  {
    const SignalGuard guard;
    CHECK(stop_signal() == 0);
    CHECK(!take_save_request());
    std::raise(SIGUSR1);
    CHECK(take_save_request());
    CHECK(!take_save_request());
    std::raise(SIGTERM);
    CHECK(stop_signal() == SIGTERM);
    struct sigaction now {};
    sigaction(SIGTERM, nullptr, &now);
    CHECK(now.sa_handler == SIG_DFL);  // a second one ends the process
  }
  struct sigaction after {};
  sigaction(SIGUSR1, nullptr, &after);
  CHECK(after.sa_handler == SIG_IGN);  // one that comes late ends nothing
  const SignalGuard fresh;
  CHECK(stop_signal() == 0);
}
