#include "quern/watch/jsonl.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "quern/base/check.hpp"
#include "quern/base/descriptor.hpp"

namespace quern {

namespace {

using Json = nlohmann::ordered_json;

Json line_of(const char* event) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return {{"event", event}, {"time", static_cast<double>(milliseconds) / 1000}};
}

Json line_of(const char* event, std::int64_t step) {
  Json line = line_of(event);
  line["step"] = step;
  return line;
}

void add_facts(Json& line, const StartEvent& start) {
  line["step"] = start.step;
  line["max_steps"] = start.max_steps;
  line["parameters"] = start.parameters;
  line["train_tokens"] = start.train_tokens;
  line["val_tokens"] = start.val_tokens;
  line["vocab_size"] = start.vocab_size;
  line["tokens_per_step"] = start.tokens_per_step;
  if (start.examples) {
    line["train_examples"] = start.examples->train;
    line["val_examples"] = start.examples->val;
    line["examples_per_step"] = start.examples->per_step;
  }
  line["name"] = start.name;
  if (start.entropy_floor) line["entropy_floor"] = *start.entropy_floor;
  line["threads"] = start.threads;
  line["isa"] = start.isa;
  line["precision"] = start.precision;
  line["data_fingerprint"] = start.data_fingerprint;
}

}  // namespace

void check_metrics(Files& files, const std::filesystem::path& path, std::int64_t offset) {
  if (offset == 0) return;
  const char* hint = "restore the file, or resume from an older checkpoint";
  if (files.kind(path) == EntryKind::missing)
    throw Error(ErrorKind::file, "the run's metrics are missing", "restore the file, or start a new run",
                path.string());
  const File file = files.open_read(path, Links::refuse);
  const auto size = static_cast<std::int64_t>(file.size());
  if (size < offset) {
    throw Error(ErrorKind::file,
                "the metrics hold " + std::to_string(size) + " bytes, the checkpoint recorded " +
                    std::to_string(offset),
                hint, path.string());
  }
  char last = '\n';
  file.read_at(static_cast<std::uint64_t>(offset - 1), &last, 1);
  if (last != '\n') {
    throw Error(
        ErrorKind::file,
        "no line of the metrics ends at byte " + std::to_string(offset) + ", where the checkpoint was made",
        hint, path.string());
  }
}

JsonlWriter::JsonlWriter(Files& files, const std::filesystem::path& path, std::int64_t offset)
    : files_(files), file_((check_metrics(files, path, offset), files.append(path))), offset_(offset) {
  file_.truncate(static_cast<std::uint64_t>(offset));
}

std::int64_t JsonlWriter::sync() {
  check();
  write_pending();
  file_.sync();
  return offset_;
}

void JsonlWriter::check_place() {
  if (lost_) throw *lost_;
  try {
    files_.check_guard(file_.path());
  } catch (const Error& error) {
    if (error.kind != ErrorKind::io) lost_ = error;
    throw;
  }
}

void JsonlWriter::check() {
  check_place();
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::io, what,
                "let nothing else write to the run's files, and resume the run from its last checkpoint",
                file_.path().string());
  };
  if (!file_.is_current()) fail("the run's metrics were removed or replaced while it trained");
  const auto bytes = static_cast<std::int64_t>(file_.size());
  const std::int64_t written = offset_ - static_cast<std::int64_t>(pending_.size());
  if (bytes != written)
    fail("the run's metrics were changed while it trained: they hold " + std::to_string(bytes) +
         " bytes, and " + std::to_string(written) + " were written");
}

void JsonlWriter::cut(std::int64_t offset) {
  check();
  QUERN_CHECK(offset >= 0 && offset <= offset_, offset, offset_);
  const auto written = static_cast<std::int64_t>(file_.size());
  pending_.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, offset - written)));
  if (offset < written) file_.truncate(static_cast<std::uint64_t>(offset));
  offset_ = offset;
}

void JsonlWriter::append(std::string_view line) {
  if (lost_) return;
  pending_ += line;
  offset_ += static_cast<std::int64_t>(line.size());
  try {
    check_place();  // another trainer may write to the same file
    write_pending();
  } catch (const Error&) {
    // Kept in pending_; sync() tries again and reports.
  }
}

void JsonlWriter::write_pending() {
  if (pending_.empty()) return;
  const std::uint64_t before = file_.size();
  try {
    file_.write(pending_);
    pending_.clear();
  } catch (const Error&) {
    // A write that fails half-way leaves the beginning of pending_ in the file.
    const std::uint64_t now = file_.size();
    pending_.erase(0, now > before ? now - before : 0);
    throw;
  }
}

JsonlStream::JsonlStream(int fd) : fd_(fd) {}

void JsonlStream::append(std::string_view line) {
  if (!gone_) gone_ = !write_all(fd_, line, "cannot write the events");
}

// Paths and names may hold any bytes; JSON holds UTF-8 only.
static std::string dump(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void JsonlEvents::on_start(const StartEvent& event) {
  Json line = line_of("start");
  add_facts(line, event);
  append(dump(line));
}

void JsonlEvents::on_resume(const ResumeEvent& event) {
  Json line = line_of("resume");
  line["checkpoint"] = event.checkpoint;
  add_facts(line, event.start);
  append(dump(line));
}

void JsonlEvents::on_step(const StepEvent& event) {
  Json line = line_of("step", event.step);
  line["tokens"] = event.tokens;
  line["loss"] = event.loss;
  if (event.smoothed_loss) line["smoothed_loss"] = *event.smoothed_loss;
  line["lr"] = event.lr;
  line["grad_norm"] = event.grad_norm;
  line["ms"] = event.ms;
  line["tokens_per_second"] = event.tokens_per_second;
  if (event.phases) {
    line["data_ms"] = event.phases->data;
    line["forward_ms"] = event.phases->forward;
    line["backward_ms"] = event.phases->backward;
    line["optimizer_ms"] = event.phases->optimizer;
  }
  if (event.rss > 0) line["rss"] = event.rss;
  if (event.update_ratio) line["update_ratio"] = *event.update_ratio;
  append(dump(line));
}

void JsonlEvents::on_eval(const EvalEvent& event) {
  Json line = line_of("eval", event.step);
  line["split"] = event.split;
  line["loss"] = event.loss;
  line["tokens"] = event.tokens;
  line["seconds"] = event.seconds;
  line["best"] = event.best;
  for (const TaskMetric& metric : event.metrics) line[metric.name] = metric.value;
  append(dump(line));
}

void JsonlEvents::on_checkpoint(const CheckpointEvent& event) {
  Json line = line_of("checkpoint", event.step);
  line["path"] = event.path;
  line["seconds"] = event.seconds;
  append(dump(line));
}

void JsonlEvents::on_sample(const SampleEvent& event) {
  Json line = line_of("sample", event.step);
  line["prompt"] = event.prompt;
  line["text"] = event.text;
  append(dump(line));
}

void JsonlEvents::on_anomaly(const AnomalyEvent& event) {
  Json line = line_of("anomaly", event.step);
  line["kind"] = event.kind;
  line["action"] = event.action;
  line["loss"] = event.loss;
  line["grad_norm"] = event.grad_norm;
  if (event.z_score) line["z_score"] = *event.z_score;
  if (event.after) line["after"] = *event.after;
  line["text"] = event.text;
  append(dump(line));
}

void JsonlEvents::on_note(const NoteEvent& event) {
  if (!event.warning) return;
  Json line = line_of("warning", event.step);
  line["text"] = event.text;
  append(dump(line));
}

void JsonlEvents::on_end(const EndEvent& event) {
  Json line = line_of("end", event.step);
  line["status"] = event.status;
  line["seconds"] = event.seconds;
  if (event.best_val) {
    line["best_val"] = *event.best_val;
    line["best_step"] = event.best_step;
  }
  append(dump(line));
}

}  // namespace quern
