// Where a resume cuts metrics.jsonl: at the byte that its checkpoint recorded, or, where the file is not what
// it was, behind what is still right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "quern/base/files.hpp"

namespace quern {

struct MetricsCut {
  std::int64_t bytes = 0;  // of the file that are kept
  std::string warning;     // empty: the file is what the checkpoint recorded
};

/// For a run that goes on from a checkpoint of `step`, which recorded that the metrics at `path` had `offset`
/// bytes. A file that is missing, shorter or tells of other steps before that byte keeps its lines up to
/// that step, and there is a warning. Changes nothing. Throws Error file at path:line where a line before
/// the cut is wrong (see read_metrics), and for what is no regular file; io when the system refuses.
MetricsCut metrics_cut(Files& files, const std::filesystem::path& path, std::int64_t offset,
                       std::int64_t step);

}  // namespace quern
