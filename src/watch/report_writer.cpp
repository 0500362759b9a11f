#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/process.hpp"
#include "quern/watch/report.hpp"

namespace quern {

ReportWriter::ReportWriter(Files& files, std::filesystem::path run_directory)
    : files_(files), run_(std::move(run_directory)) {}

void ReportWriter::on_eval(const EvalEvent&) { write_when_cheap(); }
void ReportWriter::on_checkpoint(const CheckpointEvent&) { write_when_cheap(); }
void ReportWriter::on_end(const EndEvent&) { write(); }

void ReportWriter::write_when_cheap() {
  if (Clock::now() - written_ >= 100 * cost_) write();
}

void ReportWriter::write() {
  const Clock::time_point begin = Clock::now();
  try {
    files_.check_guard(run_ / report_name);
  } catch (const Error&) {
    return;  // the directory is not the run's any more; the trainer says so
  }
  {
    std::vector<ReportRun> runs = read_report_runs(files_, {run_.string()});
    if (!runs.front().metrics.end) runs.front().status = "running";
    write_report(files_, run_ / report_name, runs);
  }
  release_free_memory();  // a page takes memory for each step; between pages the run has what it had
  written_ = Clock::now();
  cost_ = written_ - begin;
}

}  // namespace quern
