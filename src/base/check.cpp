#include "quern/base/check.hpp"

namespace quern {

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::config: return "config";
    case ErrorKind::file: return "file";
    case ErrorKind::io: return "io";
    case ErrorKind::diverged: return "diverged";
    case ErrorKind::memory: return "memory";
    case ErrorKind::run: return "run";
    case ErrorKind::threshold: return "threshold";
  }
  return "unknown";
}

std::string format(const Error& error) {
  std::string text = "error[" + std::string(name(error.kind)) + "]: " + error.what() + "\n";
  if (!error.place.empty()) text += "  --> " + error.place + "\n";
  if (!error.hint.empty()) text += "  help: " + error.hint + "\n";
  return text;
}

std::string one_line(const Error& error) {
  return error.place.empty() ? error.what() : std::string(error.what()) + " (" + error.place + ")";
}

void fail_check(const char* expression, const char* file, int line, const std::string& values) {
  std::string text = std::string("check failed: ") + expression + " at " + file + ":" + std::to_string(line);
  if (!values.empty()) text += "; values: " + values;
  throw Bug(text);
}

}  // namespace quern
