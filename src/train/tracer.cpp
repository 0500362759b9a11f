#include "quern/train/tracer.hpp"

namespace quern {

Tracer::Tracer(Files& files, const RunConfig& config, std::filesystem::path path)
    : files_(files),
      first_(config.profile_steps.empty() ? 0 : config.profile_steps.front()),
      last_(config.profile_steps.empty() ? -1 : config.profile_steps.back()),
      path_(std::move(path)) {}

template <class F>
std::string Tracer::attempt(F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    profile_.stop();
    writer_.reset();
    last_ = -1;
    return "the trace ends here: " + std::string(error.what());
  }
}

void Tracer::write() {
  const bool room = writer_->add(trace_events(profile_.slices()));
  profile_.clear();
  if (!room) throw Error(ErrorKind::io, path_.string() + " has reached 200 MB; name fewer run.profile_steps");
}

std::string Tracer::before_step(std::int64_t step) {
  if (writer_ && (step > last_ || step < first_)) return finish();  // below: the run went back
  if (step < first_ || step > last_) return {};
  return attempt([&] {
    if (writer_) {
      write();
    } else {
      writer_.emplace(files_, path_);
      profile_.start();
    }
    return std::string();
  });
}

std::string Tracer::finish() {
  if (!writer_) return {};
  profile_.stop();
  return attempt([&] {
    write();
    writer_->finish();
    writer_.reset();
    return "the trace is in " + path_.string() + "; open it with https://ui.perfetto.dev";
  });
}

}  // namespace quern
