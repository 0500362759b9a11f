// What a report's page draws, as JSON.
#pragma once

#include <string>
#include <vector>

#include "quern/watch/report.hpp"

namespace quern {

/// {"generator":…,"written":…,"runs":[…]} in ASCII and without '<', so that it may stand in a script element.
/// A run has
///   name path status started seconds step max_steps tokens parameters train_loss best{step,loss} command
///   facts        what its start told
///   steps        columns step tokens seconds loss lr grad_norm tokens_per_second ms …_ms rss: the steps kept
///   steps_made   how many there are
///   means        columns beside those of steps: the mean over the steps since the kept one before; where
///                steps were left out only
///   evals        columns step tokens seconds loss and the task's metrics;   evals_made
///   checkpoints  their steps;                                               checkpoints_made
///   resumes      their steps
///   anomalies samples warnings   lists;                                     …_made
///   config given environment     what the files hold, sections flattened to "model.d_model"; given: the
///   paths
/// Measured numbers have seven digits; what is not finite is null. Texts are harmless and cut.
std::string report_json(const std::vector<ReportRun>& runs, double written);

}  // namespace quern
