// quern doctor
#include <link.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "command.hpp"
#include "doctor.hpp"
#include "quern/base/check.hpp"
#include "quern/base/cpu.hpp"
#include "quern/base/parallel.hpp"
#include "quern/base/process.hpp"
#include "quern/data/locate.hpp"
#include "quern/kernels/gemm.hpp"
#include "quern/train/session.hpp"
#include "quern/watch/canvas.hpp"
#include "quern/watch/format.hpp"
#include "quern/watch/terminal.hpp"
#include "version.hpp"

namespace quern::cli {

namespace {

namespace fs = std::filesystem;

/// A fact about the machine or the program, in the words that people read and as JSON.
struct Fact {
  std::string name, text;
  nlohmann::ordered_json value;
};

struct Findings {
  std::vector<Fact> machine, program, speed;
  std::vector<Check> directory, numbers;
};

/// The OpenMP runtimes in this process: two would each start their own threads.
std::vector<std::string> openmp_runtimes() {
  std::vector<std::string> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* list) {
        const std::string file = fs::path(info->dlpi_name).filename();
        for (const char* runtime : {"libgomp", "libiomp", "libomp"})
          if (file.starts_with(runtime)) static_cast<std::vector<std::string>*>(list)->push_back(file);
        return 0;
      },
      &found);
  return found;
}

std::string first_line(const char* path) {
  Files files;
  try {
    const std::string text = read_file(files, path, 4096);
    return text.substr(0, text.find('\n'));
  } catch (const Error&) {
    return "unknown";
  }
}

/// "always [madvise] never": what stands in brackets.
std::string huge_pages() {
  const std::string text = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos ? "unknown"
                                                                 : text.substr(open + 1, close - open - 1);
}

std::vector<Fact> machine_facts() {
  const std::string cpu(cpu_name());
  const std::int64_t available = available_memory(), total = total_memory();
  return {{"processor", cpu, cpu},
          {"cores", std::to_string(usable_cores()) + " that this process may use", usable_cores()},
          {"memory",
           binary_size(total) + ", " + binary_size(available) + " available",
           {{"total", total}, {"available", available}}},
          {"huge pages", huge_pages(), huge_pages()}};
}

std::vector<Fact> program_facts() {
  const std::string level(name(isa())), reached(name(detected_isa()));
  std::string runtimes;
  const std::vector<std::string> found = openmp_runtimes();
  for (const std::string& runtime : found) runtimes += (runtimes.empty() ? "" : ", ") + runtime;
  const std::string data = data_directory();
  return {{"version",
           QUERN_VERSION " (commit " + commit() + "), " QUERN_BUILD_TYPE ", g++ " __VERSION__,
           {{"version", QUERN_VERSION}, {"commit", commit()}, {"build_type", QUERN_BUILD_TYPE}}},
          {"level",
           level + (level == reached ? ", the highest that this processor has"
                                     : " as QUERN_ISA says; this processor has " + reached),
           {{"used", level}, {"highest", reached}}},
          {"threads", std::to_string(thread_count()), thread_count()},
          {"oneDNN",
           gemm_library_version() + (gemm_has_bf16() ? ", with" : ", without") + " bf16 products here",
           {{"version", gemm_library_version()}, {"bf16", gemm_has_bf16()}}},
          {"OpenMP", runtimes, found},
          {"data", data, data}};
}

std::vector<Check> directory_checks() {
  std::error_code error;
  const std::string here = fs::is_directory("runs", error) ? "runs" : ".";
  std::vector<Check> checks = check_directory(here);
  struct statvfs space {};
  if (statvfs(here.c_str(), &space) == 0) {
    const auto free = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
    checks.push_back(
        {"space", free >= (std::int64_t{1} << 30), binary_size(free) + " free (1.0 GiB wanted)"});
  }
  return checks;
}

std::vector<Fact> speed_facts() {
  const MachineRates rates = machine_rates();
  const WorkResult work = run_work("A", Precision::f32, 40);
  return {{"product", fixed(rates.gflops, 0) + " GFLOP/s in f32", rates.gflops},
          {"memory", fixed(rates.gigabytes_per_second, 1) + " GB/s in a copy", rates.gigabytes_per_second},
          {"training",
           fixed(work.ms_min, 1) + " ms a step of 4 layers of 128 on 768 tokens, " +
               compact(1000 * 768 / work.ms_min) + " tok/s",
           work.ms_min}};
}

std::string text_of(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts) {
    text += "  " + fact.name + std::string(12 - std::min<std::size_t>(11, fact.name.size()), ' ');
    text += harmless(fact.text) + "\n";
  }
  return text;
}

std::string text_of(const std::vector<Check>& checks, bool colour) {
  std::string text;
  for (const Check& check : checks) {
    text += "  " + coloured(check.passed ? "ok  " : "FAIL", check.passed ? "32" : "31", colour) + "  ";
    text += check.name + std::string(30 - std::min<std::size_t>(29, check.name.size()), ' ');
    text += harmless(check.found) + "\n";
  }
  return text;
}

nlohmann::ordered_json json_of(const std::vector<Fact>& facts) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const Fact& fact : facts) object[fact.name] = fact.value;
  return object;
}

nlohmann::ordered_json json_of(const std::vector<Check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Check& check : checks)
    list.push_back({{"name", check.name}, {"passed", check.passed}, {"found", check.found}});
  return list;
}

int run(bool json, const std::string& colour) {
  set_thread_count(default_threads());
  const Terminal terminal = inspect_terminal(STDOUT_FILENO, colour_policy(colour).value());
  std::size_t failed = 0;
  nlohmann::ordered_json object;
  const auto show_facts = [&](const char* title, const std::vector<Fact>& facts) {
    object[title] = json_of(facts);
    if (!json) write_out(title + ("\n" + text_of(facts)));
  };
  const auto show_checks = [&](const char* title, const std::vector<Check>& checks) {
    object[title] = json_of(checks);
    for (const Check& check : checks) failed += check.passed ? 0 : 1;
    if (!json) write_out(title + ("\n" + text_of(checks, terminal.colour)));
  };
  show_facts("machine", machine_facts());
  show_facts("program", program_facts());
  show_checks("directory", directory_checks());
  show_checks("numbers", check_numbers());
  show_facts("speed", speed_facts());
  object["passed"] = failed == 0;
  if (json) write_json(object);
  if (failed == 0) {
    if (!json) write_out("all is well\n");
    return 0;
  }
  throw Error(ErrorKind::threshold,
              std::to_string(failed) + (failed == 1 ? " check has failed" : " checks have failed"),
              "see the lines that say FAIL; wrong numbers are worth a report, with all of this output");
}

}  // namespace

void add_doctor(CLI::App& app) {
  struct Options {
    bool json = false;
    std::string colour = "auto";
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, "doctor", "Look at the machine and check, in seconds, that numbers and speed are right here",
      {"quern doctor", "quern doctor --json | jq .speed", "QUERN_ISA=v2 quern doctor"},
      [options] { return run(options->json, options->colour); });
  command->add_flag("--json", options->json, "Print one JSON object");
  add_color_option(*command, options->colour);
}

}  // namespace quern::cli
