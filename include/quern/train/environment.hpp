#pragma once

#include <string>

namespace quern {

/// env.json: what a run was trained with: program, commit, compiler, flags, processor, ISA level, threads,
/// libraries. No environment variables, no paths, no user.
std::string environment_json(const std::string& commit, int threads);

}  // namespace quern
