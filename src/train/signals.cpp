#include "quern/train/signals.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace quern {
namespace {

constexpr std::array stops = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t stop_requested = 0;
volatile std::sig_atomic_t save_requested = 0;
const char* volatile announcement = nullptr;

/// Handlers have a stack of their own: oneDNN's products keep numbers below the stack pointer, where a frame
/// on the thread's own stack would be written over them. Signals to a process go to its first thread, which
/// makes the guard.
constexpr int handler_flags = SA_RESTART | SA_ONSTACK;
alignas(16) std::array<char, 1 << 16> handler_stack;

/// Sets what the stopping signals do. A hangup that is ignored, as under nohup, stays ignored.
void handle_stops(void (*handler)(int)) {
  for (const int signal : stops) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (signal == SIGHUP && action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_flags = handler_flags;
    action.sa_handler = handler;
    sigaction(signal, &action, nullptr);
  }
}

extern "C" void on_stop(int signal) {
  stop_requested = signal;
  handle_stops(SIG_DFL);  // the second one ends the process
  const int before = errno;
  if (const char* text = announcement; text != nullptr) [[maybe_unused]]
    const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
  errno = before;
}

extern "C" void on_save(int) { save_requested = 1; }

}  // namespace

SignalGuard::SignalGuard() {
  stop_requested = 0;
  save_requested = 0;
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  sigaltstack(&stack, nullptr);
  handle_stops(on_stop);
  struct sigaction action {};
  action.sa_flags = handler_flags;
  action.sa_handler = on_save;
  sigaction(SIGUSR1, &action, nullptr);
}

SignalGuard::~SignalGuard() {
  handle_stops(SIG_DFL);
  std::signal(SIGUSR1, SIG_IGN);  // what asks for a save as the run ends asks too late, and for nothing else
}

void announce_stops(const char* text) { announcement = text; }

int stop_signal() { return stop_requested; }

bool take_save_request() {
  const bool asked = save_requested != 0;
  save_requested = 0;
  return asked;
}

}  // namespace quern
