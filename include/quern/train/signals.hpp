#pragma once

namespace quern {

/// While one of these lives, the first SIGINT, SIGTERM or SIGHUP asks for a stop, a second one ends the
/// process at once, and SIGUSR1 asks for a checkpoint. A SIGHUP that was ignored before (nohup) stays
/// ignored, and SIGUSR1 is ignored from the guard's end on. The handlers set flags, and write what
/// announce_stops was given.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
};

/// From here on the first stopping signal writes `text`, a literal, to stderr at once: what it asks for may
/// take a while.
void announce_stops(const char* text);

/// The signal that asked for a stop; 0 when none did.
int stop_signal();

/// Whether a checkpoint was asked for since the last call.
bool take_save_request();

}  // namespace quern
