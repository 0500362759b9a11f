// The parts of a report's page that are the same in each, embedded when Quern is built (src/watch/report/
// and Chart.js, see CMakeLists.txt).
#pragma once

#include <string_view>

namespace quern {

extern const std::string_view report_html;  // with {{name}} where something is to be put in
extern const std::string_view report_css;
extern const std::string_view report_script;
extern const std::string_view chart_script;

}  // namespace quern
