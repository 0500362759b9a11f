// Ranges of options that depend on the task, which a config's fields alone cannot say.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "quern/base/check.hpp"
#include "quern/base/fields.hpp"

namespace quern {

/// Throws Error(config) unless the option data.`field` lies in the range.
template <class Number>
void check_option(std::string_view task, const std::string& field, Number value, const FieldRange& range,
                  const std::string& hint = {}) {
  if (range.contains(static_cast<double>(value))) return;
  throw Error(ErrorKind::config,
              "data." + field + ": must be " + range.text() + " for data.task " + std::string(task) +
                  ", found " + nlohmann::json(value).dump(),
              hint);
}

}  // namespace quern
