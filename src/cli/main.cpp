#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>

#include "command.hpp"
#include "quern/base/check.hpp"
#include "quern/base/cpu.hpp"
#include "usage.hpp"
#include "version.hpp"

namespace quern::cli {

namespace {

// One line a command.
constexpr void (*commands[])(CLI::App&) = {
    add_train,  add_sample,   add_predict, add_translate,   add_eval,    add_curves,
    add_report, add_runs,     add_sweep,   add_config,      add_inspect, add_attention,
    add_bench,  add_estimate, add_doctor,  add_completions, add_manual,
};

constexpr const char* footer =
    "Examples:\n"
    "  quern train\n"
    "  quern sample --run runs/latest --prompt 'Once'\n"
    "  quern curves runs/latest\n"
    "\n"
    "Exit codes: 0 done, 1 a bug of ours, 2 usage or config, 3 a bad input file, 4 input/output,\n"
    "  5 numbers diverged, 6 out of memory, 7 nothing to resume or run in use,\n"
    "  8 a threshold not met, 128+n a signal.\n";

int parse_and_run(int argc, const char* const* argv) {
  CLI::App app("Quern trains Transformers from scratch on the CPU you own.", "quern");
  app.get_formatter()->column_width(help_column);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("--version", version_text, "Print version, commit, processor level and threads");
  app.require_subcommand(0, 1);
  app.footer(footer);
  for (const auto add : commands) add(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    write_out(help_text(app));
    return 0;
  } catch (const CLI::CallForVersion& version) {
    write_out(version.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    throw usage_error(app, error);
  }
  if (!chosen_command()) {
    write_out(help_text(app));
    return 0;
  }
  isa();  // an unknown QUERN_ISA is said before anything is written
  const int code = chosen_command()();
  finish_output();
  return code;
}

/// A standard stream that is closed would be given to the next file that is opened. Its place is taken by one
/// on which reading or writing fails.
void occupy_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

constexpr std::string_view bug = "error[bug]: ",
                           bug_help = "\n  help: this is a mistake in quern; please report it\n";

/// Memory that runs out where no exception may pass ends the program as it does elsewhere: the JSON library
/// allocates while it takes an object apart.
[[noreturn]] void on_terminate() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    constexpr std::string_view text = "error[memory]: out of memory\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(static_cast<int>(ErrorKind::memory));
  } catch (const std::exception& error) {  // a bug of ours: the core is worth keeping
    for (const std::string_view text : {bug, std::string_view(error.what()), bug_help})
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  } catch (...) {
  }
  std::abort();
}

int fail(std::string text, int code) {
  while (text.ends_with('\n')) text.pop_back();
  say(text);
  return code;
}

}  // namespace
}  // namespace quern::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is EPIPE, which ends the program quietly
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow further is EFBIG, an error like a full disk
  std::set_terminate(quern::cli::on_terminate);
  using quern::cli::fail;
  quern::cli::occupy_standard_streams();
  try {
    return quern::cli::parse_and_run(argc, argv);
  } catch (const quern::cli::OutputClosed&) {
    return 0;
  } catch (const quern::Error& error) {
    return fail(quern::format(error), static_cast<int>(error.kind));
  } catch (const std::filesystem::filesystem_error& error) {
    const quern::Error refused(quern::ErrorKind::io, "the system refuses: " + error.code().message(), "",
                               error.path1().string());
    return fail(quern::format(refused), static_cast<int>(refused.kind));
  } catch (const std::bad_alloc&) {
    return fail("error[memory]: out of memory", static_cast<int>(quern::ErrorKind::memory));
  } catch (const std::exception& error) {
    using namespace quern::cli;
    return fail(std::string(bug) + error.what() + std::string(bug_help), 1);
  }
}
