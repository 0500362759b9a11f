// The machine's rates, kept from one estimate to the next.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench.hpp"
#include "quern/base/cpu.hpp"
#include "quern/base/durable.hpp"
#include "quern/base/parallel.hpp"
#include "quern/base/rng.hpp"
#include "quern/kernels/gemm.hpp"

namespace quern::cli {

namespace {

namespace fs = std::filesystem;

/// What the rates depend on.
std::string identity() {
  return std::string(cpu_name()) + ", " + std::to_string(usable_cores()) + " cores, " +
         std::to_string(thread_count()) + " threads, " + std::string(name(isa())) + ", oneDNN " +
         gemm_library_version() + ", quern " QUERN_VERSION;
}

/// Empty when the environment names no place.
fs::path cache_directory() {
  const auto absolute = [](const char* variable) {
    const char* value = std::getenv(variable);
    const fs::path path = value != nullptr ? value : "";
    return path.is_absolute() ? path : fs::path();
  };
  if (const fs::path cache = absolute("XDG_CACHE_HOME"); !cache.empty()) return cache / "quern";
  if (const fs::path home = absolute("HOME"); !home.empty()) return home / ".cache" / "quern";
  return {};
}

/// A file of the cache: the rates and what they are of.
struct Kept {
  std::string machine;
  MachineRates rates;

  void fields(FieldList& f) {
    f("machine", machine, "");
    rates.fields(f);
  }
};

/// Whether the file holds every rate, of this machine. A cache that is damaged is no news: it is made again.
bool read(const fs::path& path, Kept& kept) {
  try {
    const std::string text = read_file(path.string(), 1 << 16);
    const JsonDocument document = parse_strict(text, path.string(), ErrorKind::file);
    const FieldList list = fields_of(kept);
    const auto* members = std::get_if<Json::Object>(&document.root.value);
    if (members == nullptr || members->size() != list.fields.size()) return false;
    for (const Json::Member& member : *members) {
      const Field* field = list.find(member.key);
      if (field == nullptr || !assign(*field, member.value).empty()) return false;
    }
    return kept.machine == identity();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

MachineRates known_machine_rates(bool again) {
  const fs::path directory = cache_directory();
  char file[40];
  std::snprintf(file, sizeof file, "rates-%016llx.json",
                static_cast<unsigned long long>(site_hash(identity())));
  Kept kept;
  if (!again && !directory.empty() && read(directory / file, kept)) return kept.rates;
  kept = {identity(), machine_rates()};
  if (directory.empty()) return kept.rates;
  try {
    std::error_code error;
    fs::create_directories(directory, error);
    Files files;
    replace_file_durably(files, directory / file, to_json(fields_of(kept)));
  } catch (const Error&) {
    // Measured again the next time.
  }
  return kept.rates;
}

}  // namespace quern::cli
