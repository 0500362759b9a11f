#pragma once

#include <filesystem>

#include "quern/base/files.hpp"
#include "quern/watch/events.hpp"

namespace quern {

/// Keeps each sample as a file step-000000200.txt of a directory, which is made if need be: prompt and text
/// as the model wrote them, byte for byte.
class SampleFiles final : public Observer {
 public:
  SampleFiles(Files& files, std::filesystem::path directory)
      : files_(files), directory_(std::move(directory)) {}

  void on_sample(const SampleEvent& event) override;

 private:
  Files& files_;
  std::filesystem::path directory_;
};

}  // namespace quern
