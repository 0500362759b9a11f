// What the targets of the two forms of records share.
#pragma once

#include <algorithm>

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
      require(!set.records.empty(), "a set of records is not empty");
      for (const Record& record : set.records)
        require(record.tokens.size() == record.tags.size(), "there is a tag for each token");
    } catch (const Error& error) {
      if (error.kind != ErrorKind::file) throw;
    }
  }
}

/// Each line is a record, however short: its texts, its place and what a growing list holds beside.
inline std::uint64_t records_memory(std::string_view input) {
  return default_memory(input) +
         3 * (sizeof(Record) + 64) * static_cast<std::uint64_t>(std::count(input.begin(), input.end(), '\n'));
}

}  // namespace quern::test
