// Records and images as data of a run.
#include <ctime>
#include <functional>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "data/image_files.hpp"
#include "quern/data/dataset.hpp"

namespace quern {
namespace {

using test::TemporaryDirectory;

struct Fixture {
  TemporaryDirectory directory;
  DataConfig config;
  DataShape shape{Framing::whole, 16, 0, 1};

  Fixture() { config.val_fraction = 0.25; }

  Dataset load(TaskKind task, const std::string& text, const std::string& name = "data.tsv") {
    test::put(directory / name, text);
    config.task = task;
    config.text = {(directory / name).string()};
    return load_dataset(config, shape);
  }
};

/// Kind and text of the error that f ends with.
std::pair<int, std::string> error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return {static_cast<int>(error.kind), format(error)};
  }
  return {0, ""};
}

std::string ids_as_text(const Dataset& data, const std::vector<std::int32_t>& ids) {
  return data.tokenizer.decode(ids);
}

TEST_CASE("lines with labels: the tail is held out, classes are in order, the mark stands first") {
  Fixture f;
  const Dataset data = f.load(TaskKind::classification, "a\tyes\nb\tno\n\nab\tyes\nba\tno\n");
  CHECK(data.train_size() == 3);
  CHECK(data.val_size() == 1);
  CHECK(data.labels == std::vector<std::string>{"no", "yes"});
  REQUIRE(data.notes.size() == 1);
  CHECK_THAT(data.notes[0], Catch::Contains("1 blank lines"));
  Example example;
  data.examples->get(Split::val, 0, example);
  CHECK(ids_as_text(data, example.inputs) == "\nba");
  CHECK(example.targets == std::vector<std::int32_t>{0});
}

TEST_CASE("a label that training lacks is refused with its line, unless data.labels states it") {
  Fixture f;
  const std::string text = "a\tyes\nb\tno\nab\tyes\nba\tmaybe\n";
  const auto [kind, message] = error_of([&] { f.load(TaskKind::classification, text); });
  CHECK(kind == 3);
  CHECK_THAT(message, Catch::Contains("\"maybe\"") && Catch::Contains("data.tsv:4"));
  f.config.labels = {"yes", "no", "maybe"};
  CHECK(f.load(TaskKind::classification, text).labels.size() == 3);
}

/// Each line another label.
std::string many_labels(int count, const std::string& text = "a") {
  std::string lines;
  for (int i = 0; i < count; ++i) lines += text + "\tlabel" + std::to_string(i) + "\n";
  return lines;
}

TEST_CASE("as many labels as a run can hold are read at once, one more is refused with its line") {
  Fixture f;
  f.config.val_fraction = 0, f.config.tokenizer = "word";
  for (const TaskKind task : {TaskKind::classification, TaskKind::tagging}) {
    CAPTURE(enum_name(task));
    const std::clock_t begin = std::clock();
    const Dataset data = f.load(task, many_labels(65536));
    CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC <
          4);  // a list searched from its begin: 10
    REQUIRE(data.labels.size() == 65536);
    Example example;
    for (const std::int64_t i : {0, 1, 9, 65535}) {
      data.examples->get(Split::train, i, example);
      REQUIRE(example.targets.size() == 1);
      CHECK(data.labels.at(static_cast<std::size_t>(example.targets[0])) == "label" + std::to_string(i));
    }
    const auto [kind, message] = error_of([&] { f.load(task, many_labels(65537)); });
    CHECK(kind == 3);
    CHECK_THAT(message,
               Catch::Contains("more than 65536 different labels") && Catch::Contains("data.tsv:65537"));
  }
  // 2 MiB of labels, of which a config's text may need six times as much.
  const std::string half(1 << 20, 'x');
  CHECK(f.load(TaskKind::classification, "a\t" + half + "\na\t" + half.substr(1) + "\n").labels.size() == 2);
  const auto [kind, message] =
      error_of([&] { f.load(TaskKind::classification, "a\t" + half + "\na\ty" + half + "\n"); });
  CHECK(kind == 3);
  CHECK_THAT(message, Catch::Contains("more than 2097152 bytes of labels") && Catch::Contains("data.tsv:2"));
}

TEST_CASE("a label that stands twice in data.labels is the first of the two") {
  Fixture f;
  f.config.labels = {"no", "yes", "no"};
  const Dataset data = f.load(TaskKind::classification, "a\tyes\nb\tno\nab\tno\nba\tno\n");
  Example example;
  data.examples->get(Split::train, 1, example);
  CHECK(example.targets == std::vector<std::int32_t>{0});
}

TEST_CASE("tags need a token for each word") {
  Fixture f;
  const std::string text = "the cat\tD N\na dog\tD N\nthe dog\tD N\na cat\tD N\n";
  CHECK(error_of([&] { f.load(TaskKind::tagging, text); }).first == 2);
  f.config.tokenizer = "word";
  const Dataset data = f.load(TaskKind::tagging, text);
  Example example;
  data.examples->get(Split::train, 1, example);
  CHECK(example.inputs.size() == 2);
  CHECK(example.targets == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("translations lie as a source, and between marks; a longer row than the context is named") {
  Fixture f;
  f.shape.framing = Framing::memory;
  const Dataset data = f.load(TaskKind::translation, "ab\txy\nba\tyx\nb\ty\na\tx\n");
  Example example;
  data.examples->get(Split::train, 0, example);
  CHECK(ids_as_text(data, example.source) == "ab");
  CHECK(ids_as_text(data, example.inputs) == "\nxy");
  CHECK(ids_as_text(data, example.targets) == "xy\n");
  CHECK(data.examples->lengths(0).both() == 5);
  const auto [kind, message] = error_of(
      [&] { f.load(TaskKind::translation, "ab\txy\n" + std::string(17, 'a') + "\tx\nb\ty\na\tx\n"); });
  CHECK(kind == 3);
  CHECK_THAT(message, Catch::Contains("17 tokens") && Catch::Contains("data.tsv:2"));
}

TEST_CASE("two parallel files; unequal line counts are told with both numbers") {
  Fixture f;
  f.shape.framing = Framing::memory;
  test::put(f.directory / "a.txt", "ab\nba\nb\na\n");
  test::put(f.directory / "b.txt", "xy\nyx\ny\nx\n");
  f.config.task = TaskKind::translation;
  f.config.source = {(f.directory / "a.txt").string()};
  f.config.target = {(f.directory / "b.txt").string()};
  CHECK(load_dataset(f.config, f.shape).train_size() == 3);
  test::put(f.directory / "b.txt", "xy\nyx\n");
  const auto [kind, message] = error_of([&] { load_dataset(f.config, f.shape); });
  CHECK(kind == 3);
  CHECK_THAT(message, Catch::Contains("4") && Catch::Contains("2"));
}

TEST_CASE("numbers come as they are; a split without a record is refused") {
  Fixture f;
  const Dataset data = f.load(TaskKind::regression, "a\t1.5\nb\t-2\nab\t3\nba\t4\n");
  Example example;
  data.examples->get(Split::train, 1, example);
  CHECK(example.value == -2);
  CHECK(data.examples->kind == RowKind::value);
  const auto [kind, message] = error_of([&] { f.load(TaskKind::regression, "a\t1.5\n"); });
  CHECK(kind == 3);
  CHECK_THAT(message, Catch::Contains("split has no record"));
}

TEST_CASE("every change that training would see is another fingerprint") {
  Fixture f;
  const auto print = [&](TaskKind task, const std::string& text, const std::string& name = "data.tsv") {
    return f.load(task, text, name).fingerprint;
  };
  const std::string values = "a\t1\nb\t1e-7\n", again = print(TaskKind::regression, values);
  CHECK(print(TaskKind::regression, values) == again);
  CHECK(print(TaskKind::regression, "a\t1\nb\t4e-7\n") != again);
  CHECK(print(TaskKind::regression, "a\t1.00000001\nb\t1e-7\n") != again);
  CHECK(print(TaskKind::regression, "b\t1\na\t1e-7\n") != again);

  f.config.labels = {"no", "yes"};
  const std::string labels = print(TaskKind::classification, "a\tyes\nb\tno\n");
  CHECK(print(TaskKind::classification, "a\tno\nb\tyes\n") != labels);
  CHECK(print(TaskKind::classification, "a\tyes\nc\tno\n") != labels);
  // Where a text ends and the next begins counts, whatever stands in them.
  f.config.labels = {"c\td", "d", "no"};
  const std::string end = "\n{\"text\": \"x\", \"label\": \"no\"}\n";
  CHECK(print(TaskKind::classification, R"({"text": "a\tc", "label": "d"})" + end, "a.jsonl") !=
        print(TaskKind::classification, R"({"text": "a", "label": "c\td"})" + end, "a.jsonl"));

  f.config.labels = {"D", "N"}, f.config.tokenizer = "word";
  const std::string tags = print(TaskKind::tagging, "the cat\tD N\na dog\tD N\n");
  CHECK(print(TaskKind::tagging, "the cat\tN D\na dog\tD N\n") != tags);
  CHECK(print(TaskKind::tagging, "the dog\tD N\na dog\tD N\n") != tags);

  f.config.labels = {}, f.config.tokenizer = "char", f.shape.framing = Framing::memory;
  const std::string pairs = print(TaskKind::translation, "ab\txy\nba\tyx\n");
  CHECK(print(TaskKind::translation, "ab\tyx\nba\txy\n") != pairs);
  CHECK(print(TaskKind::translation, "ba\txy\nab\tyx\n") != pairs);
}

TEST_CASE("the fingerprint of images holds their labels, the labels' names and their sides") {
  Fixture f;
  f.shape.patch_size = 2;
  f.config.task = TaskKind::images;
  const auto folder = [&](const std::vector<std::string>& places, const std::string& size = "4 2") {
    std::filesystem::remove_all(f.directory / "images");
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto path = f.directory / "images" / (places[i] + ".pgm");
      std::filesystem::create_directories(path.parent_path());
      test::put(path, "P2 " + size + " 255 " + std::to_string(i) + " 0 0 0 0 0 0 0\n");
    }
    f.config.text = {(f.directory / "images").string()};
    return load_dataset(f.config, f.shape).fingerprint;
  };
  const std::string first = folder({"a/0", "a/1", "b/2", "b/3"});
  CHECK(folder({"a/0", "a/1", "b/2", "b/3"}) == first);
  CHECK(folder({"a/0", "a/1", "a/2", "b/3"}) != first);  // the same pixels in the same order
  CHECK(folder({"a/0", "a/1", "c/2", "c/3"}) != first);
  CHECK(folder({"a/0", "a/1", "b/2", "b/3"}, "2 4") != first);

  const auto idx = [&](const std::string& labels) {
    test::put(f.directory / "images-idx3", test::idx(test::kIdxImages, {4, 2, 2}, std::string(16, '\7')));
    test::put(f.directory / "labels-idx1", test::idx(test::kIdxLabels, {4}, labels));
    f.config.text = {(f.directory / "images-idx3").string()};
    return load_dataset(f.config, f.shape).fingerprint;
  };
  CHECK(idx({0, 1, 0, 1}) != idx({0, 1, 1, 0}));
}

TEST_CASE("a folder of images becomes patches behind an empty one, both splits mixed") {
  Fixture f;
  f.shape.patch_size = 2;
  for (int i = 0; i < 8; ++i) {
    const std::string label = i % 2 == 0 ? "dark" : "light";
    std::filesystem::create_directories(f.directory / "images" / label);
    test::put(f.directory / "images" / label / (std::to_string(i) + ".pgm"),
              "P2 4 2 255 " + std::string(i % 2 == 0 ? "0 0 0 0 0 0 0 0" : "255 255 0 0 255 255 0 0") + "\n");
  }
  f.config.task = TaskKind::images;
  f.config.text = {(f.directory / "images").string()};
  const Dataset data = load_dataset(f.config, f.shape);
  CHECK(data.labels == std::vector<std::string>{"dark", "light"});
  CHECK(data.image == std::vector<std::int64_t>{2, 4, 1});
  CHECK(data.train_size() == 6);
  CHECK(data.val_size() == 2);
  Example example;
  for (std::int64_t i = 0; i < 6; ++i) {
    data.examples->get(Split::train, i, example);
    REQUIRE(example.inputs.size() == 3);
    const float first = example.targets[0] == 0 ? -1.0F : 1.0F;
    CHECK(example.patches == std::vector<float>{0, 0, 0, 0, first, first, first, first, -1, -1, -1, -1});
  }
  f.shape.patch_size = 3;
  const auto [kind, message] = error_of([&] { load_dataset(f.config, f.shape); });
  CHECK(kind == 3);
  CHECK_THAT(message, Catch::Contains("4 x 2") && Catch::Contains("model.patch_size"));
  f.shape.patch_size = 2, f.shape.context_length = 2;
  CHECK(error_of([&] { load_dataset(f.config, f.shape); }).first == 2);
}

}  // namespace
}  // namespace quern
