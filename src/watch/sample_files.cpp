#include "quern/watch/sample_files.hpp"

#include <cstdio>

#include "quern/base/durable.hpp"

namespace quern {

void SampleFiles::on_sample(const SampleEvent& event) {
  files_.make_directory(directory_);
  char name[40];
  std::snprintf(name, sizeof name, "step-%09lld.txt", static_cast<long long>(event.step));
  replace_file_durably(files_, directory_ / name, event.prompt + event.text);
}

}  // namespace quern
