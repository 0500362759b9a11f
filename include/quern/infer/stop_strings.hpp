#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quern {

/// Ends a stream of bytes before the first of some strings, however the stream is cut into pieces.
class StopStrings {
 public:
  /// None of the strings may be empty.
  explicit StopStrings(std::vector<std::string> strings);

  /// The bytes that are settled now. What may be the start of a stop string is held back, so the result may
  /// also hold bytes of earlier calls. The string that is complete first stops the stream, the longest of
  /// those that end together; then found() is true and nothing follows.
  std::string push(std::string_view bytes);

  /// Ends the stream: what was held back, unless a string was found.
  std::string finish();

  bool found() const { return found_; }

 private:
  std::vector<std::string> strings_;
  std::string held_;
  bool found_ = false;
};

}  // namespace quern
