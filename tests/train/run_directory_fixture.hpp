// What the tests of run directories share.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "base/temporary_directory.hpp"
#include "quern/train/run_directory.hpp"

namespace quern::test {

inline const RunTexts kTexts{"{\"about\":\"é\"}", "{\"resolved\":1}", "{\"env\":1}", "{\"tokenizer\":1}"};

inline RunRequest request_for(const std::filesystem::path& directory, bool overwrite = false) {
  return {"toy", directory, "runs", overwrite};
}

inline void make_run(const std::filesystem::path& directory) {
  Files files;
  RunDirectory run = RunDirectory::create(files, request_for(directory));
  run.begin(kTexts);
}

inline std::set<std::string> names_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(directory)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

}  // namespace quern::test
