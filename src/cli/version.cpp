#include "version.hpp"

#include "quern/base/cpu.hpp"
#include "quern/kernels/gemm.hpp"
#include "quern/train/session.hpp"

namespace quern::cli {

std::string commit() { return QUERN_COMMIT; }

std::string version_text() {
  return "quern " QUERN_VERSION " (commit " + commit() + ")\noneDNN " + gemm_library_version() +
         ", ISA level " + std::string(name(isa())) + ", " + std::to_string(default_threads()) + " threads\n";
}

}  // namespace quern::cli
