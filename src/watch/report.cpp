#include "quern/watch/report.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "quern/base/check.hpp"
#include "quern/base/durable.hpp"
#include "quern/base/sha256.hpp"
#include "quern/watch/curves.hpp"
#include "quern/watch/format.hpp"
#include "quern/watch/run_summary.hpp"
#include "quern/watch/terminal.hpp"
#include "report_assets.hpp"
#include "report_data.hpp"

namespace quern {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t most_bytes = 16 << 20;  // of a config or an env.json; labels are many

/// The file's text; empty, with a problem noted, when it is no JSON object that can be read.
std::string object_text(Files& files, const fs::path& path, std::vector<std::string>& problems) {
  try {
    std::string text = read_file(files, path, most_bytes);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (nlohmann::json::accept(text) && text[first] == '{') return text;
    problems.push_back("this is no JSON object (" + path.string() + ")");
  } catch (const Error& error) {
    problems.push_back(one_line(error));
  }
  return {};
}

/// `template_text` with each {{name}} replaced.
std::string filled(std::string_view template_text,
                   const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string text;
  for (;;) {
    const std::size_t open = template_text.find("{{");
    text += template_text.substr(0, open);
    if (open == std::string_view::npos) return text;
    const std::size_t close = template_text.find("}}", open);
    QUERN_CHECK(close != std::string_view::npos, open);
    const std::string_view name = template_text.substr(open + 2, close - open - 2);
    const auto value =
        std::find_if(values.begin(), values.end(), [&](const auto& entry) { return entry.first == name; });
    QUERN_CHECK(value != values.end(), name);
    text += value->second;
    template_text.remove_prefix(close + 2);
  }
}

/// Text between the tags of HTML.
std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : harmless(text)) {
    switch (c) {
      case '&': html += "&amp;"; break;
      case '<': html += "&lt;"; break;
      case '>': html += "&gt;"; break;
      default: html += c;
    }
  }
  return html;
}

std::string row_of(const std::vector<std::string>& cells) {
  std::string row = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i)
    row += (i == 0 ? "<th scope=\"row\">" : "<td>") + escaped(cells[i]) + (i == 0 ? "</th>" : "</td>");
  return row + "</tr>\n";
}

/// What a reader without JavaScript gets: a row for each run, then the evaluations of a single one.
std::string plain_tables(const std::vector<ReportRun>& runs) {
  std::string html =
      "<table><thead><tr><th>run</th><th>status</th><th>steps</th><th>best validation loss</th>"
      "<th>last training loss</th><th>target tokens</th><th>time</th></tr></thead><tbody>\n";
  for (const ReportRun& run : runs) {
    const RunSummary summary = summarise(run.metrics);
    html += row_of({run.name, run.status, grouped(summary.step), best_text(summary),
                    summary.train_loss ? fixed(*summary.train_loss, 4) : "none", grouped(summary.tokens),
                    duration(summary.seconds)});
  }
  html += "</tbody></table>\n";
  if (runs.size() != 1 || runs.front().metrics.evals.empty()) return html;
  html += "<table><thead><tr><th>step</th><th>validation loss</th></tr></thead><tbody>\n";
  const std::vector<EvalEvent>& evals = runs.front().metrics.evals;
  const std::size_t stride = (evals.size() + 99) / 100;  // a hundred rows are enough to see the course
  for (std::size_t i = (evals.size() - 1) % stride; i < evals.size(); i += stride)
    html += row_of({grouped(evals[i].step), fixed(evals[i].loss, 4)});
  return html + "</tbody></table>\n";
}

/// A hash as a Content-Security-Policy names it.
std::string source_of(std::string_view text) { return "'sha256-" + base64(sha256(text)) + "'"; }

}  // namespace

fs::path run_directory_of(const std::string& run) {
  std::error_code ignored;
  const fs::path path = without_slash(fs::path(run).lexically_normal());
  if (fs::is_directory(path, ignored)) return path;
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

std::vector<ReportRun> read_report_runs(Files& files, const std::vector<std::string>& paths) {
  std::vector<ReportRun> runs;
  std::vector<NamedMetrics> named = read_runs(paths);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const fs::path directory = run_directory_of(paths[i]);
    ReportRun run;
    run.name = named[i].name;
    run.path = directory.string();
    run.metrics = std::move(named[i].metrics);
    run.status = status_of(run.metrics, false);
    run.config = object_text(files, directory / "config.resolved.json", run.problems);
    run.given = object_text(files, directory / "config.json", run.problems);
    run.environment = object_text(files, directory / "env.json", run.problems);
    runs.push_back(std::move(run));
  }
  return runs;
}

std::string report_page(const std::vector<ReportRun>& runs, double written) {
  static const std::string policy = "default-src 'none'; script-src " + source_of(chart_script) + " " +
                                    source_of(report_script) + "; style-src " + source_of(report_css) +
                                    "; img-src data:; base-uri 'none'; form-action 'none'";
  return filled(report_html, {{"policy", policy},
                              {"style", std::string(report_css)},
                              {"tables", plain_tables(runs)},
                              {"data", report_json(runs, written)},
                              {"chart", std::string(chart_script)},
                              {"script", std::string(report_script)}});
}

void write_report(Files& files, const fs::path& path, const std::vector<ReportRun>& runs) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  replace_file_durably(files, path, report_page(runs, now.count()));
}

}  // namespace quern
