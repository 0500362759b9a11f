#include "quern/train/environment.hpp"

#include <nlohmann/json.hpp>

#include "quern/base/cpu.hpp"
#include "quern/kernels/gemm.hpp"

namespace quern {

std::string environment_json(const std::string& commit, int threads) {
  const nlohmann::ordered_json env = {{"version", QUERN_VERSION},
                                      {"commit", commit},
                                      {"compiler", "g++ " __VERSION__},
                                      {"build_type", QUERN_BUILD_TYPE},
                                      {"cpu", cpu_name()},
                                      {"isa", name(isa())},
                                      {"threads", threads},
                                      {"onednn", gemm_library_version()}};
  return env.dump(2) + "\n";
}

}  // namespace quern
