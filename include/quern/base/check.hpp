// Two tiers of errors. QUERN_CHECK is for our own bugs: it names the expression, the values and the place.
// Error is for the user's world: one sentence, where it happened, what to do; its kind is the exit code.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace quern {

/// What went wrong, as the program's exit code.
enum class ErrorKind {
  config = 2,     // the command line or the config
  file = 3,       // what an input file holds
  io = 4,         // the system: disk full, read-only, permission
  diverged = 5,   // a loss, gradient or weight that is not finite
  memory = 6,     // what does not fit
  run = 7,        // nothing to resume, an incompatible resume, a run in use
  threshold = 8,  // a figure that was asked for and not met
};

/// "config", "file", … as printed in error[config].
std::string_view name(ErrorKind kind);

/// A mistake or mishap outside the program. what() is "what" alone; `place` is file:line:column or a path,
/// may be empty; `hint` says what to do, may be empty.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind_, const std::string& what, std::string hint_ = {}, std::string place_ = {})
      : std::runtime_error(what), kind(kind_), hint(std::move(hint_)), place(std::move(place_)) {}

  ErrorKind kind;
  std::string hint;
  std::string place;
};

/// The lines that a user sees on stderr:
///   error[config]: train.lerning_rate: unknown key
///     --> cfg.json:14:7
///     help: did you mean "learning_rate"?
std::string format(const Error& error);

/// "what (place)", for a warning or a list; without the place when there is none.
std::string one_line(const Error& error);

/// A bug of ours; exit code 1.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* expression, const char* file, int line, const std::string& values);

namespace detail {
template <class... Values>
std::string describe(const Values&... values) {
  std::ostringstream out;
  ((out << values << ' '), ...);
  return std::move(out).str();
}
}  // namespace detail
}  // namespace quern

/// QUERN_CHECK(a == b, a, b): throws quern::Bug with the expression, the listed values and the place.
#define QUERN_CHECK(expression, ...)                                                                \
  do {                                                                                              \
    if (!(expression)) [[unlikely]]                                                                 \
      ::quern::fail_check(#expression, __FILE__, __LINE__, ::quern::detail::describe(__VA_ARGS__)); \
  } while (false)
