#include "quern/watch/tensorboard.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>

#include "protobuf.hpp"
#include "quern/base/check.hpp"
#include "quern/base/crc32c.hpp"

namespace quern {

namespace {

namespace fs = std::filesystem;
using Message = ProtobufMessage;

constexpr std::string_view stem = "events.out.tfevents.";

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The seconds in the name of an event file, or 0.
std::int64_t seconds_of(const std::string& name) {
  std::int64_t seconds = 0;
  if (name.starts_with(stem)) std::from_chars(name.data() + stem.size(), name.data() + name.size(), seconds);
  return seconds;
}

/// Readers take files in the order of their names, ten digits first.
fs::path new_file(Files& files, const fs::path& directory) {
  files.make_directory(directory);
  auto seconds = static_cast<std::int64_t>(now());
  for (const DirectoryEntry& entry : files.list(directory))
    seconds = std::max(seconds, seconds_of(entry.name) + 1);
  char name[64];
  std::snprintf(name, sizeof name, "%s%010lld.quern.%d", stem.data(), static_cast<long long>(seconds),
                static_cast<int>(getpid()));
  return directory / name;
}

std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8U; }

void append_number(std::string& to, const auto& number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// Fields of Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log; of Summary: 1 value; of
// Value: 1 tag, 2 simple_value, 5 histo, 8 tensor, 9 metadata.

Message event_at(std::int64_t step) {
  Message event;
  event.number(1, now());
  event.varint(2, static_cast<std::uint64_t>(step));
  return event;
}

Message value_of(const std::string& tag) {
  Message value;
  value.bytes(1, tag);
  return value;
}

/// SummaryMetadata {1 plugin_data {1 plugin_name, 2 content}}
Message plugin(std::string_view name, const Message& content = {}) {
  Message data, metadata;
  data.bytes(1, name);
  if (!content.bytes().empty()) data.message(2, content);
  return metadata.message(1, data);
}

std::string summary(std::int64_t step, const Message& value) {
  Message values, event = event_at(step);
  values.message(1, value);
  return event.message(5, values).bytes();
}

/// google.protobuf.Value {2 number_value, 3 string_value, 4 bool_value}
Message value_message(const Hyperparameter& setting) {
  Message value;
  if (const bool* flag = std::get_if<bool>(&setting.value)) return value.varint(4, *flag ? 1 : 0);
  if (const double* number = std::get_if<double>(&setting.value)) return value.number(2, *number);
  return value.bytes(3, std::get<std::string>(setting.value));
}

/// The text plugin reads Markdown: a block indented by four blanks is shown as it is.
std::string verbatim(const std::string& text) {
  std::string out = "    ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out;
}

}  // namespace

TensorBoard::TensorBoard(Files& files, const fs::path& directory, std::vector<Hyperparameter> settings)
    : file_(files.create(new_file(files, directory))), settings_(std::move(settings)) {
  Message first;
  write(first.number(1, now()).bytes(3, "brain.Event:2").bytes());
  flush();
}

TensorBoard::~TensorBoard() {
  try {
    flush();
  } catch (const Error&) {  // whoever watches may fail
  }
}

void TensorBoard::write(const std::string& event) {
  std::string length;
  append_number(length, static_cast<std::uint64_t>(event.size()));
  pending_ += length;
  append_number(pending_, masked(crc32c(length.data(), length.size())));
  pending_ += event;
  append_number(pending_, masked(crc32c(event.data(), event.size())));
  if (steady_seconds() - flushed_ > 2) flush();
}

void TensorBoard::flush() {
  file_.write(pending_);
  pending_.clear();
  flushed_ = steady_seconds();
}

void TensorBoard::scalar(const std::string& tag, double value, std::int64_t step) {
  write(summary(step, value_of(tag).number(2, static_cast<float>(value))));
}

// TensorProto {1 dtype: 7 (string), 2 shape {2 dim {1 size}}, 8 string_val}
void TensorBoard::text(const std::string& tag, const std::string& value, std::int64_t step) {
  Message size, shape, tensor;
  size.varint(1, 1);
  shape.message(2, size);
  tensor.varint(1, 7).message(2, shape).bytes(8, value);
  write(summary(step, value_of(tag).message(8, tensor).message(9, plugin("text"))));
}

// HParamsPluginData {3 session_start_info {1 hparams: a map {1 key, 2 value}, 4 group_name, 5 start_time}}
void TensorBoard::settings() {
  Message info, data;
  for (const Hyperparameter& setting : settings_) {
    Message entry;
    info.message(1, entry.bytes(1, setting.name).message(2, value_message(setting)));
  }
  info.number(5, now());
  data.message(3, info);
  write(summary(0, value_of("_hparams_/session_start_info").message(9, plugin("hparams", data))));
}

/// SessionLog {1 status: 1 (start)}: what an earlier process wrote of the steps from here on does not count.
void TensorBoard::restart_after(std::int64_t step) {
  Message log, event = event_at(step + 1);
  write(event.message(7, log.varint(1, 1)).bytes());
}

void TensorBoard::on_start(const StartEvent&) {
  settings();
  flush();
}

void TensorBoard::on_resume(const ResumeEvent& event) {
  restart_after(event.start.step);
  settings();
  flush();
}

void TensorBoard::on_step(const StepEvent& event) {
  const bool has_loss = !event.without_target();
  if (has_loss) scalar("train/loss", event.loss, event.step);
  if (has_loss && event.smoothed_loss) scalar("train/smoothed_loss", *event.smoothed_loss, event.step);
  scalar("train/learning_rate", event.lr, event.step);
  if (has_loss) scalar("train/gradient_norm", event.grad_norm, event.step);
  if (event.update_ratio) scalar("train/update_ratio", *event.update_ratio, event.step);
  scalar("train/tokens_per_second", event.tokens_per_second, event.step);
  scalar("train/milliseconds", event.ms, event.step);
  if (event.rss > 0) scalar("memory/resident_bytes", static_cast<double>(event.rss), event.step);
}

void TensorBoard::on_eval(const EvalEvent& event) {
  scalar(event.split + "/loss", event.loss, event.step);
  for (const TaskMetric& metric : event.metrics)
    scalar(event.split + "/" + metric.name, metric.value, event.step);
  flush();
}

void TensorBoard::on_checkpoint(const CheckpointEvent&) { flush(); }

void TensorBoard::on_sample(const SampleEvent& event) {
  text("samples", verbatim(event.prompt + event.text), event.step);
  flush();
}

// HistogramProto {1 min, 2 max, 3 num, 4 sum, 5 sum_squares, 6 bucket_limit, 7 bucket}
void TensorBoard::on_distribution(const DistributionEvent& event) {
  for (const auto& [kind, found] :
       {std::pair("weights/", &event.values), std::pair("gradients/", &event.gradients)}) {
    if (found->limits.empty()) continue;
    const std::vector<double> counts(found->counts.begin(), found->counts.end());
    Message histogram;
    histogram.number(1, found->min).number(2, found->max).number(3, static_cast<double>(found->count));
    histogram.number(4, found->sum).number(5, found->sum_squares);
    histogram.packed(6, found->limits).packed(7, counts);
    write(summary(event.step, value_of(kind + event.tensor).message(5, histogram)));
  }
}

void TensorBoard::on_anomaly(const AnomalyEvent& event) {
  text("anomalies", verbatim(event.text), event.step);
  if (event.after) restart_after(*event.after);
  flush();
}

// HParamsPluginData {4 session_end_info {1 status: 1 success, 2 failure, 2 end_time}}
void TensorBoard::on_end(const EndEvent& event) {
  Message info, data;
  info.varint(1, event.status == "completed" ? 1 : 2).number(2, now());
  data.message(4, info);
  write(summary(event.step, value_of("_hparams_/session_end_info").message(9, plugin("hparams", data))));
  flush();
}

}  // namespace quern
