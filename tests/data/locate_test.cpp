#include "quern/data/locate.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "quern/base/check.hpp"

using namespace quern;
namespace fs = std::filesystem;

TEST_CASE("the first directory that holds toy.txt is taken", "[data]") {
  const fs::path root = fs::temp_directory_path() / "quern_locate_test";
  fs::remove_all(root);
  fs::create_directories(root / "first" / "toy.txt");  // a directory of that name does not count
  fs::create_directories(root / "second");
  fs::create_directories(root / "x");
  fs::create_directories(root / "third");
  const std::vector<fs::path> candidates = {root / "none", root / "first", root / "x/../second",
                                            root / "third"};
  try {
    find_data_directory(candidates);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::file);
    CHECK(std::string(error.what()).find((root / "none").string()) != std::string::npos);
    CHECK(std::string(error.what()).find((root / "third").string()) != std::string::npos);
    CHECK(!error.hint.empty());
  }
  std::ofstream(root / "third/toy.txt") << "c";
  CHECK(find_data_directory(candidates) == root / "third");
  std::ofstream(root / "second/toy.txt") << "b";
  CHECK(find_data_directory(candidates) == root / "second");
  fs::remove_all(root);
}
