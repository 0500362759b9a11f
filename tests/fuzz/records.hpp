// What the targets of the two forms of records share.
#pragma once

#include "quern/base/check.hpp"
#include "quern/data/records.hpp"
#include "target.hpp"

namespace quern::test {

/// The input, as a file of that name, as records of each kind.
inline void read_each_kind(const std::string& name, std::string_view input) {
  const std::string path = input_file(name, input);
  for (const RecordKind kind : {RecordKind::label, RecordKind::tags, RecordKind::value, RecordKind::pair}) {
    try {
      const RecordSet set = read_records(path, kind);
      std::int64_t seen = 0;
      set.each([&seen](const Record& record) {
        require(record.tokens.size() == record.tags.size(), "there is a tag for each token");
        ++seen;
      });
      require(seen > 0 && seen == set.size(), "a set of records is not empty, and knows its size");
    } catch (const Error& error) {
      if (error.kind != ErrorKind::file) throw;
    }
  }
}

}  // namespace quern::test
