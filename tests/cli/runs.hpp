// Training runs through the built program, and what two of them must have in common.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "cli/program.hpp"

namespace quern::test {

inline const std::string configs = QUERN_SOURCE_DIR "/configs/";

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The words, and each of the settings behind a --set.
inline std::vector<std::string> with_settings(std::vector<std::string> words,
                                              const std::vector<std::string>& settings) {
  for (const std::string& s : settings) words.insert(words.end(), {"--set", s});
  return words;
}

/// Trains a small model with these settings; the run is at `path`.
inline void train_small(const std::filesystem::path& path, const std::vector<std::string>& settings,
                        const TemporaryDirectory& output) {
  const std::vector<std::string> words =
      with_settings({"train", "-q", "--run-dir", path.string()},
                    {"data.eval_stride=0", "model.d_model=16", "model.n_layers=1", "model.n_heads=2",
                     "run.max_steps=2", "run.batch_size=2", "run.eval_batches=1"});
  const Outcome o = run(with_settings(words, settings), output);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
}

/// The arguments that start the run at `path` or go on with it.
inline std::vector<std::string> resume_words(const std::filesystem::path& path,
                                             const std::vector<std::string>& settings,
                                             const std::string& config = configs + "tiny.json") {
  return with_settings({"train", "--config", config, "--run-dir", path.string(), "--resume", "auto"},
                       settings);
}

/// Every step and every evaluation of a run, without what the clock says and the memory that is held.
inline std::vector<std::string> recorded(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::istringstream metrics(get(path / "metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    auto event = nlohmann::json::parse(line);
    if (event.at("event") != "step" && event.at("event") != "eval") continue;
    for (const char* measured : {"time", "ms", "data_ms", "forward_ms", "backward_ms", "optimizer_ms", "rss",
                                 "tokens_per_second", "seconds"})
      event.erase(measured);
    lines.push_back(event.dump());
  }
  return lines;
}

/// Holds the end of one run against another's: weights, moments and every figure, bit for bit.
inline void check_same_run(const std::filesystem::path& path, const std::filesystem::path& whole) {
  const std::string last = get(whole / "latest");
  REQUIRE(!last.empty());
  CHECK(get(path / "latest") == last);
  const std::string checkpoint = last.substr(0, last.find('\n'));
  for (const char* file : {"model.safetensors", "optim.safetensors"}) {
    const std::string expected = get(whole / checkpoint / file);
    REQUIRE(!expected.empty());
    CHECK((get(path / checkpoint / file) == expected));
  }
  CHECK(recorded(path) == recorded(whole));
}

inline bool has_ended(const Program& program) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(program.pid()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != 0;
}

/// Waits until `condition` holds; false when the program has ended before.
template <class Condition>
bool wait_until(const Program& program, Condition condition) {
  while (!condition()) {
    if (has_ended(program)) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// The number behind a name in /proc/PID/status; 0 where it does not stand.
inline std::uint64_t status_number(const Program& program, const std::string& name, int base = 10) {
  const std::string status = get("/proc/" + std::to_string(program.pid()) + "/status");
  const std::size_t at = status.find("\n" + name + ":");
  return at == std::string::npos ? 0 : std::stoull(status.substr(at + name.size() + 2), nullptr, base);
}

/// Whether the process still has a handler for the signal.
inline bool catches(const Program& program, int signal) {
  return (status_number(program, "SigCgt", 16) >> (signal - 1) & 1) != 0;
}

/// Waits until the run's metrics hold `text`.
inline bool wait_for_metrics(const Program& program, const std::filesystem::path& path,
                             const std::string& text) {
  return wait_until(program, [&] { return has(get(path / "metrics.jsonl"), text); });
}

/// Starts the run at `path` anew and sends it `signal` once its metrics hold `text`; nothing when it had
/// ended before.
inline std::optional<Outcome> stopped_at(const std::filesystem::path& path,
                                         const std::vector<std::string>& settings, const std::string& text,
                                         int signal, const TemporaryDirectory& directory) {
  std::filesystem::remove_all(path);
  Program program(resume_words(path, settings), directory);
  if (!wait_for_metrics(program, path, text)) return std::nullopt;
  ::kill(program.pid(), signal);
  return program.wait();
}

/// Random, and the same instants on every run of the tests as far as the machine allows.
inline void sleep_for_random(double longest_seconds, std::uint32_t random) {
  std::this_thread::sleep_for(std::chrono::duration<double>(longest_seconds * random / 4294967296.0));
}

}  // namespace quern::test
