// The layer rule: a linker does not forbid an arrow upwards, so the includes are read and held against the
// table.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"

namespace {

namespace fs = std::filesystem;

/// Which layers a layer may include, itself aside.
const std::map<std::string, std::set<std::string>> uses = {
    {"base", {}},
    {"kernels", {"base"}},
    {"autograd", {"kernels", "base"}},
    {"nn", {"autograd", "base"}},
    {"text", {"base"}},
    {"data", {"text", "base"}},
    {"dist", {"base"}},
    {"watch", {"base"}},
    {"io", {"nn", "autograd", "text", "base"}},
    {"infer", {"nn", "autograd", "text", "base"}},
    {"train", {"nn", "autograd", "kernels", "text", "data", "dist", "io", "watch", "infer", "base"}},
    {"lab", {"train", "infer", "nn", "autograd", "kernels", "text", "data", "io", "watch", "base"}},
    {"cli",
     {"lab", "train", "infer", "nn", "autograd", "kernels", "text", "data", "dist", "io", "watch", "base"}},
};

struct Source {
  fs::path path;
  std::string layer;
  std::vector<std::string> lines;
};

std::vector<Source> sources() {
  std::vector<Source> found;
  for (const char* top : {"src", "include/quern"}) {
    const fs::path root = fs::path(QUERN_SOURCE_DIR) / top;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (!entry.is_regular_file()) continue;
      Source source{entry.path(), entry.path().lexically_relative(root).begin()->string(), {}};
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) source.lines.push_back(line);
      found.push_back(std::move(source));
    }
  }
  return found;
}

}  // namespace

TEST_CASE("every include points to a layer that its layer may use") {
  const std::regex include(R"rx(^\s*#\s*include\s+["<]quern/([a-z_]+)/)rx");
  int arrows = 0;
  for (const Source& source : sources()) {
    REQUIRE(uses.count(source.layer) == 1);
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (!std::regex_search(line, match, include) || match[1] == source.layer) continue;
      CAPTURE(source.path, line);
      CHECK(uses.at(source.layer).count(match[1]) == 1);
      ++arrows;
    }
  }
  CHECK(arrows > 100);  // the table was held against something
}

TEST_CASE("only the gemm file knows oneDNN, only the picture file libpng") {
  const std::regex include(R"rx(^\s*#\s*include\s+[<"](?:(?:oneapi/)?(dnnl)|(png\.h)))rx");
  std::smatch match;
  for (const Source& source : sources())
    for (const std::string& line : source.lines)
      if (std::regex_search(line, match, include)) {
        CAPTURE(source.path);
        CHECK(source.path.filename() == (match[1].matched ? "gemm.cpp" : "picture.cpp"));
      }
}

TEST_CASE("a closure names what it captures: no [=] and no [&] where operations are recorded") {
  const std::regex blanket(R"rx(\[[=&][\],])rx");
  for (const Source& source : sources()) {
    if (source.layer != "autograd") continue;
    for (const std::string& line : source.lines) {
      CAPTURE(source.path, line);
      CHECK(!std::regex_search(line, blanket));
    }
  }
}

TEST_CASE("files that are compiled once per level see plain headers only") {
  const std::regex include(R"rx(^\s*#\s*include\s+(["<])([^">]+))rx");
  for (const Source& source : sources()) {
    if (source.path.string().find("/kernels/level/") == std::string::npos) continue;
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      CAPTURE(source.path, line);
      CHECK((match[2] == "stdint.h" || match[1] == "\""));
      CHECK(match[2].str().rfind("quern/", 0) == std::string::npos);
    }
  }
}
