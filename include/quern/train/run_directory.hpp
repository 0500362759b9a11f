// A run's directory: one trainer at a time, nothing of anybody else's touched.
//   config.json config.resolved.json env.json tokenizer.json metrics.jsonl ckpt/ latest report.html tb/
//   samples/ log.txt trace.json lock
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "quern/base/files.hpp"

namespace quern {

struct RunRequest {
  std::string name = "run";         // config run.name; letters, digits, '.', '_', '-'
  std::filesystem::path directory;  // --run-dir; empty: <root>/<name>-<UTC yyyymmdd-hhmmss>-<4 hex>
  std::filesystem::path root = "runs";
  bool overwrite = false;  // --overwrite
};

struct RunTexts {
  std::string config;           // as given
  std::string resolved_config;  // every field
  std::string environment;
  std::string tokenizer;
};

/// missing: does not exist. vacant: empty, or left by a start that did not get as far as its configuration.
/// run: holds config.resolved.json. foreign: anything else, a file included.
enum class DirectoryState { missing, vacant, run, foreign };
DirectoryState directory_state(const Files& files, const std::filesystem::path& directory);

/// ErrorKind::run unless `directory` is a run. For commands that only read.
void require_run(const Files& files, const std::filesystem::path& directory);

/// Whether a trainer works in `directory`: whether its lock is held, asked by a shared lock for an instant,
/// which a start at that instant outwaits. Makes and changes nothing, and does not wait. Where the file
/// system has no locks: whether the process that the lock names lives.
bool in_use(Files& files, const std::filesystem::path& directory);

/// Holds the lock of a run's directory until it is destroyed (or the process dies, however). The path is
/// followed once, before the lock: where a link of it leads later does not matter. Until then, too, nothing
/// is made or deleted below it through `files` once the path leads to another directory, the lock's file is
/// another or gone, or ckpt, tb or samples is no directory of the run's own: ErrorKind::run.
class RunDirectory {
 public:
  /// Makes the directory, takes its lock and proves by a write that it can be written to (ErrorKind::io
  /// otherwise). ErrorKind::run when another process works in it (its id is named), when it is a run and
  /// overwrite is not asked for, or when it holds anything foreign. Nothing of an old run is removed yet, and
  /// one that is never begun disappears again.
  static RunDirectory create(Files& files, const RunRequest& request);
  /// Takes the lock of an existing run and deletes what interrupted writes left. ErrorKind::run when
  /// `directory` is no run or is in use.
  static RunDirectory resume(Files& files, const std::filesystem::path& directory);

  RunDirectory(RunDirectory&&) = default;
  RunDirectory& operator=(RunDirectory&&) = delete;
  ~RunDirectory();

  /// After create: removes the run that is to be overwritten (files of a run by their names, never others),
  /// writes the texts and an empty metrics.jsonl durably, config.resolved.json last, and points <root>/latest
  /// here if the run lies in root.
  void begin(const RunTexts& texts);

  /// As it was given where no link is on the way, else without links, relative if below the current folder.
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.json"; }
  std::filesystem::path resolved_config() const { return path_ / "config.resolved.json"; }
  std::filesystem::path environment() const { return path_ / "env.json"; }
  std::filesystem::path tokenizer() const { return path_ / "tokenizer.json"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path log() const { return path_ / "log.txt"; }
  std::filesystem::path trace() const { return path_ / "trace.json"; }
  std::filesystem::path checkpoints() const { return path_ / "ckpt"; }
  std::filesystem::path samples() const { return path_ / "samples"; }
  std::filesystem::path tensorboard() const { return path_ / "tb"; }
  /// What the user should know: no locks on this file system, a directory that everyone may write to, …
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  RunDirectory(Files& files, std::filesystem::path path);
  void take_lock();
  void probe();
  void remove_old_run();
  void point_latest_here();

  Files* files_;
  std::filesystem::path path_;
  std::filesystem::path root_;
  File lock_;
  bool fresh_ = false;  // the directory was made here and begin() did not run yet
  std::vector<std::string> warnings_;
};

}  // namespace quern
