// quern bench
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/base/parallel.hpp"
#include "quern/base/suggest.hpp"
#include "quern/train/estimate.hpp"
#include "quern/train/session.hpp"
#include "quern/watch/terminal.hpp"

extern char** environ;

namespace quern::cli {

namespace {

struct BenchOptions : ConfigOptions {
  std::vector<std::string> works;
  std::string precision = "f32";
  std::int64_t steps = 0;
  int threads = 0;
  bool kernels = false, profile = false, json = false, here = false;
};

Precision precision_named(const std::string& name) {
  for (const auto& entry : enum_names(Precision{}))
    if (entry.name == name) return entry.value;
  QUERN_CHECK(false, name);
}

nlohmann::ordered_json json_of(const WorkResult& r) {
  return {{"work", r.work},
          {"precision", r.precision},
          {"threads", r.threads},
          {"ms_min", r.ms_min},
          {"ms_median", r.ms_median},
          {"tokens_per_second", r.tokens_per_second},
          {"seconds_to_first_step", r.seconds_to_first_step},
          {"peak_rss_mb", r.peak_rss_mb},
          {"loss", r.loss}};
}

std::string row_of(const WorkResult& r) {
  char text[160];
  std::snprintf(text, sizeof text, "%-7s %-5s %7d %10.2f %10.2f %12.0f %12.2f %9.0f %8.4f\n", r.work.c_str(),
                r.precision.c_str(), r.threads, r.ms_min, r.ms_median, r.tokens_per_second,
                r.seconds_to_first_step, r.peak_rss_mb, r.loss);
  return text;
}

/// This program once more, for one work, so that its peak memory is its own. Its output goes where ours goes.
int run_elsewhere(const BenchOptions& options, const std::string& work) {
  std::vector<std::string> words = {"quern",       "bench",
                                    work,          "--here",
                                    "--precision", options.precision,
                                    "--steps",     std::to_string(options.steps),
                                    "--threads",   std::to_string(options.threads)};
  if (options.json) words.emplace_back("--json");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ);
      error != 0)
    throw Error(ErrorKind::io, "cannot start a process for the work " + work + ": " + std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void check_works(const std::vector<std::string>& works) {
  for (const std::string& work : works) {
    if (is_work(work)) continue;
    std::string all;
    for (const std::string& name : work_names()) all += " " + name;
    throw Error(ErrorKind::config, "bench: no work is called " + in_quotes(work), "the works are" + all);
  }
}

/// The config to profile: a work's, or the one that files and --set make.
Config profiled_config(const BenchOptions& options) {
  const bool configured = !options.files.empty() || !options.sets.empty();
  if (options.kernels || options.works.size() + (configured ? 1 : 0) != 1)
    throw Error(ErrorKind::config, "quern bench --profile takes one work or --config, one of the two",
                "try quern bench --profile B0, or quern bench --profile --config configs/toy.json");
  if (options.steps != 0)
    throw Error(ErrorKind::config, "quern bench --profile shows one step", "leave --steps away");
  if (configured && (options.threads != 0 || options.precision != "f32"))
    throw Error(ErrorKind::config, "with --config the config says the threads and the precision",
                "give --set run.threads=N or --set run.precision=bf16");
  if (configured) return plan_run(options.files, options.sets, reading_line()).config;
  check_works(options.works);
  if (options.works.front() == "decode")
    throw Error(ErrorKind::config, "quern bench --profile profiles training, and decode does not train",
                "name another work");
  Config config = work_config(options.works.front());
  config.run.precision = precision_named(options.precision);
  set_thread_count(options.threads != 0 ? options.threads : default_threads());
  return config;
}

int run(const BenchOptions& options) {
  if (options.profile) {
    const Config config = profiled_config(options);
    require_memory(config, 0);
    write_out(step_profile(config, inspect_terminal(STDOUT_FILENO), options.json));
    return 0;
  }
  if (!options.files.empty() || !options.sets.empty())
    throw Error(ErrorKind::config, "quern bench takes a config with --profile alone", "add --profile");
  if (options.kernels == !options.works.empty())
    throw Error(ErrorKind::config, "quern bench takes works or --kernels, one of the two",
                "try quern bench A B0, or quern bench --kernels");
  if (options.kernels) {
    set_thread_count(options.threads != 0 ? options.threads : default_threads());
    write_out(kernel_table(type_of(precision_named(options.precision))));
    return 0;
  }
  check_works(options.works);
  if (options.here) {
    set_thread_count(options.threads != 0 ? options.threads : default_threads());
    const WorkResult result =
        run_work(options.works.front(), precision_named(options.precision), options.steps);
    if (options.json) {
      write_json(json_of(result));
    } else {
      write_out(row_of(result));
    }
    return 0;
  }
  if (!options.json)
    write_out("work    prec. threads     ms min  ms median     tokens/s   s to first   peak MB     loss\n");
  for (const std::string& work : options.works)
    if (const int code = run_elsewhere(options, work); code != 0) return code;
  return 0;
}

}  // namespace

void add_bench(CLI::App& app) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command =
      add_command(app, "bench", "Measure training steps of named works, decoding, or every kernel",
                  {"quern bench A B0", "quern bench C64 --steps 5 --json", "quern bench --kernels",
                   "quern bench --profile --config configs/toy.json"},
                  [options] { return run(*options); });
  std::string works;
  for (const std::string& name : work_names()) works += (works.empty() ? "" : " ") + name;
  command->add_option("work", options->works, works);
  add_choice(*command, "--precision", options->precision, {"f32", "bf16"}, "Type of weights and activations");
  add_number(*command, "--steps", options->steps, between(0, 1 << 30),
             "Steps of each work; 0 means the work's own number");
  add_number(*command, "--threads", options->threads, between(0, 4096),
             "Threads; 0 means all cores this process may use");
  command->add_flag("--kernels", options->kernels, "Measure every kernel instead of works");
  command->add_flag("--profile", options->profile,
                    "Show where one training step of a work, or of --config, spends its time");
  add_config_options(*command, *options);
  command->add_flag("--json", options->json, "Print one JSON object a work");
  command->add_flag("--here", options->here)->group("");
}

}  // namespace quern::cli
