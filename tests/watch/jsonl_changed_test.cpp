// metrics.jsonl while somebody else has his hands on it, or on the directory that it is in.
#include <filesystem>
#include <functional>
#include <optional>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"
#include "quern/watch/jsonl.hpp"

using namespace quern;
using quern::test::get;
using quern::test::TemporaryDirectory;

namespace {

std::optional<ErrorKind> kind_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.kind;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("the writer sees that its file was removed, replaced, cut or added to") {
  Files files;
  const auto check = [&](const std::function<void(const std::filesystem::path&)>& change, bool found = true) {
    const TemporaryDirectory directory;
    const auto path = directory / "metrics.jsonl";
    JsonlWriter writer(files, path);
    writer.on_sample({1, "a", "b"});
    writer.sync();
    change(path);
    writer.on_sample({2, "a", "b"});
    CHECK(kind_of([&] { writer.sync(); }) == (found ? std::optional(ErrorKind::io) : std::nullopt));
    CHECK(kind_of([&] { writer.cut(0); }) == (found ? std::optional(ErrorKind::io) : std::nullopt));
  };
  check([](const auto&) {}, false);
  check([](const auto& path) { std::filesystem::remove(path); });
  check([](const auto& path) {
    test::put(path.parent_path() / "new", get(path));
    std::filesystem::rename(path.parent_path() / "new", path);
  });
  check([](const auto& path) {
    std::filesystem::rename(path, path.parent_path() / "moved");
    std::filesystem::create_symlink("moved", path);
  });
  check([](const auto& path) { std::filesystem::resize_file(path, 3); });
  check([](const auto& path) { std::filesystem::resize_file(path, 300); });
}

TEST_CASE("the writer writes no line once its place is somebody else's, and says so from then on") {
  const TemporaryDirectory directory;
  Files files;
  const auto path = directory / "metrics.jsonl";
  JsonlWriter writer(files, path);
  std::optional<Error> refusal;
  files.guard(directory.path(), [&] {
    if (refusal) throw Error(*refusal);
  });
  writer.on_sample({1, "a", "b"});
  const std::string before = get(path);
  REQUIRE_FALSE(before.empty());
  refusal = Error(ErrorKind::io, "cannot look");  // for a while: the line comes later
  writer.on_sample({2, "a", "b"});
  CHECK(kind_of([&] { writer.sync(); }) == ErrorKind::io);
  CHECK(get(path) == before);
  refusal.reset();
  writer.sync();
  CHECK(get(path).size() == 2 * before.size());
  refusal = Error(ErrorKind::run, "not ours");
  writer.on_sample({3, "a", "b"});
  refusal.reset();
  writer.on_sample({4, "a", "b"});
  CHECK(kind_of([&] { writer.sync(); }) == ErrorKind::run);
  CHECK(get(path).size() == 2 * before.size());
}
