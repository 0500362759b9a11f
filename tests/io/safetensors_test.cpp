#include "quern/io/safetensors.hpp"

#include <cstring>
#include <functional>
#include <optional>
#include <random>

#include "base/temporary_directory.hpp"
#include "catch.hpp"
#include "quern/base/check.hpp"
#include "quern/base/crc32c.hpp"

using namespace quern;
using quern::safetensors::DType;
using quern::safetensors::Reader;
using quern::safetensors::Writer;
using quern::test::get;
using quern::test::put;
using quern::test::TemporaryDirectory;

namespace {

// Length, header and data as they lie in a file.
std::string file_of(const std::string& header, const std::string& data = {},
                    std::optional<std::uint64_t> length = {}) {
  const std::uint64_t bytes = length.value_or(header.size());
  std::string text(8, '\0');
  std::memcpy(text.data(), &bytes, 8);
  return text + header + data;
}

// The message with which a file of this content is refused; empty when it is read.
std::string refusal(const TemporaryDirectory& directory, const std::string& content) {
  const auto path = directory / "x.safetensors";
  put(path, content);
  Files files;
  try {
    const Reader reader(files, path);
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place == path.string());
    return error.what();
  }
  return {};
}

struct Sample {
  std::vector<float> matrix{1.5f, -2.0f, 3.25f, 4.0f, 5.0f, 6.0f};
  std::vector<std::uint16_t> half{0x3F80, 0xC000, 0x7FC0};
  std::vector<std::int64_t> ids{-1, 1};
  std::vector<std::uint8_t> bytes{1, 2, 3, 4, 5};
  float scalar = 7.0f;

  std::vector<safetensors::TensorEntry> entries() const {
    return {{"h.0.mlp.weight", DType::F32, {2, 3}, matrix.data()},
            {"bytes", DType::U8, {5}, bytes.data()},
            {"a_scalar", DType::F32, {}, &scalar},
            {"half", DType::BF16, {3, 1}, half.data()},
            {"ids", DType::I64, {2}, ids.data()},
            {"empty", DType::F32, {0, 4}, nullptr}};
  }
};

safetensors::Checksums save(const std::filesystem::path& path, const Writer& writer) {
  Files files;
  File file = files.create(path);
  file.preallocate(writer.size());
  const safetensors::Checksums sums = writer.write(file);
  file.close();
  return sums;
}

}  // namespace

TEST_CASE("safetensors: what is written is read, in the reference writer's layout") {
  const TemporaryDirectory directory;
  const Sample sample;
  const Writer writer(sample.entries(), {{"step", "20"}});
  const safetensors::Checksums sums = save(directory / "a", writer);
  const std::string content = get(directory / "a");
  CHECK(content.size() == writer.size());

  // By alignment, the largest first, then by name; `empty` has no bytes.
  const std::string header = R"({"__metadata__":{"format":"pt","step":"20"},)"
                             R"("ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
                             R"("a_scalar":{"dtype":"F32","shape":[],"data_offsets":[16,20]},)"
                             R"("empty":{"dtype":"F32","shape":[0,4],"data_offsets":[20,20]},)"
                             R"("h.0.mlp.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[20,44]},)"
                             R"("half":{"dtype":"BF16","shape":[3,1],"data_offsets":[44,50]},)"
                             R"("bytes":{"dtype":"U8","shape":[5],"data_offsets":[50,55]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  CHECK(content.substr(0, content.size() - 55) == file_of(padded));

  Files files;
  const Reader reader(files, directory / "a");
  CHECK(reader.metadata() == safetensors::Metadata{{"format", "pt"}, {"step", "20"}});
  REQUIRE(reader.tensors().size() == 6);
  CHECK(reader.tensors()[0].name == "ids");
  CHECK(reader.find("nothing") == nullptr);
  REQUIRE(reader.find("half") != nullptr);
  CHECK(reader.find("half")->dtype == DType::BF16);
  CHECK(reader.find("half")->shape == std::vector<std::int64_t>{3, 1});
  CHECK(reader.find("a_scalar")->shape.empty());
  std::vector<float> matrix(6);
  reader.read_tensor("h.0.mlp.weight", matrix.data(), 24);
  CHECK(matrix == sample.matrix);
  std::vector<std::int64_t> ids(2);
  reader.read_tensor("ids", ids.data(), 16);
  CHECK(ids == sample.ids);
  reader.read_tensor("empty", nullptr, 0);
  CHECK_THROWS_AS(reader.read_tensor("ids", ids.data(), 8), Bug);
}

TEST_CASE("safetensors: checksums of the file and of each tensor, from writer and reader") {
  const TemporaryDirectory directory;
  const Sample sample;
  const std::vector<float> large(700'000, 0.1f);  // several chunks
  std::vector<safetensors::TensorEntry> entries = sample.entries();
  entries.push_back({"large", DType::F32, {700, 1000}, large.data()});
  const safetensors::Checksums written = save(directory / "a", Writer(entries));
  Files files;
  const safetensors::Checksums read = Reader(files, directory / "a").checksums();
  const std::string content = get(directory / "a");
  CHECK(written.file == crc32c(content.data(), content.size()));
  CHECK(read.file == written.file);
  CHECK(read.tensors == written.tensors);
  CHECK(written.tensors.at("large") == crc32c(large.data(), large.size() * 4));
  CHECK(written.tensors.at("empty") == 0);
}

TEST_CASE("safetensors: a writer refuses names that no reader takes") {
  const float value = 0;
  const auto write = [&](std::vector<std::string> names) {
    std::vector<safetensors::TensorEntry> entries;
    for (const std::string& name : names) entries.push_back({name, DType::F32, {}, &value});
    const Writer writer(entries);
  };
  CHECK_NOTHROW(write({"a", "b"}));
  CHECK_THROWS_AS(write({"a", "b", "a"}), Bug);
  CHECK_THROWS_AS(write({""}), Bug);
  CHECK_THROWS_AS(write({"a\nb"}), Bug);
  CHECK_THROWS_AS(write({"__metadata__"}), Bug);
  CHECK_THROWS_AS(write({std::string(513, 'a')}), Bug);
}

TEST_CASE("safetensors: files that the reference reader takes") {
  const TemporaryDirectory directory;
  const std::string one = R"("t":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]})";
  const std::string data(16, 'x');
  CHECK(refusal(directory, file_of("{}")).empty());
  CHECK(refusal(directory, file_of("{" + one + "}", data)).empty());
  CHECK(refusal(directory, file_of(" \n{" + one + "} \t ", data)).empty());
  CHECK(refusal(directory, file_of("{" + one + R"(,"__metadata__":{}})", data)).empty());
  CHECK(refusal(directory, file_of(R"({"t":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "x")).empty());
  CHECK(refusal(directory, file_of(R"({"t":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", "xyz"))
            .empty());
  // Empty tensors between others, and the fields in any order.
  CHECK(refusal(directory,
                file_of("{" + one + R"(,"z":{"data_offsets":[16,16],"shape":[2,0],"dtype":"C64"}})", data))
            .empty());
}

TEST_CASE("safetensors: hostile files are refused, and the message says why") {
  const TemporaryDirectory directory;
  const std::string data(16, 'x');
  const auto tensor = [](const std::string& fields) { return "{\"t\":{" + fields + "}}"; };
  const auto with = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return file_of(tensor("\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets),
                   data);
  };
  const std::string good = R"("t":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]})";
  const std::string half = R"({"dtype":"I32","shape":[2],"data_offsets":)";
  const std::string max = "18446744073709551615";
  std::string many = "{";
  for (int i = 0; i < 10; ++i) {
    many += (i > 0 ? "," : "") + ("\"t" + std::to_string(i)) +
            R"(":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]})";
  }
  struct Case {
    std::string content;
    const char* reason;
  };
  const std::vector<Case> cases{
      // lengths
      {"", "0 bytes"},
      {"1234567", "7 bytes"},
      {file_of("", "", 100'000'001), "more than 100000000"},
      {file_of("", "", ~std::uint64_t{0}), "more than 100000000"},
      {file_of("{}", "", 3), "would have 3 bytes, the file has 10"},
      {file_of("", "", 0), "does not begin with '{' at byte 8"},
      {file_of("  "), "does not begin with '{' at byte 10"},
      {file_of("{" + good + "}", data.substr(1)), "describes 16 bytes of data, the file has 15"},
      {file_of("{" + good + "}", data + "x"), "describes 16 bytes of data, the file has 17"},
      {file_of("{}", "x"), "describes 0 bytes of data, the file has 1"},
      // JSON
      {file_of("[]"), "does not begin"},
      {file_of("\xEF\xBB\xBF{}"), "does not begin"},
      {file_of("{\"\xFF\":1}"), "not JSON at byte 10"},
      {file_of("{} x"), "not JSON at byte 11"},
      {file_of("{}{}"), "not JSON at byte 10"},
      {file_of(std::string("{}\0", 3)), "not JSON at byte 10"},
      {file_of("{"), "not JSON"},
      {file_of("{/**/}"), "not JSON at byte 9"},
      {file_of("{" + good + ",}", data), "not JSON"},
      {file_of("{\"t\":" + std::string(100'000, '[')), "a list where an object is expected"},
      {file_of("{\"t\":" + std::string(100'000, '{')), "not JSON"},
      {file_of("{\"t\":" + std::string("{\"shape\":") + std::string(100'000, '[')), "a list where a size"},
      {file_of("{\"t\":{\"dtype\":{\"t\":{}}}}"), "an object where the dtype"},
      // entries
      {file_of("{" + good + "," + good + "}", data), "lies at bytes 0 to 16"},
      {file_of(R"({"z":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
               R"("z":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})"),
       "\"z\" stands twice"},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ stands twice"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})"), "\"a\" of __metadata__ stands twice"},
      {file_of(R"({"__metadata__":{"a":1}})"), "a number where a string of __metadata__"},
      {file_of(R"({"__metadata__":{"a":null}})"), "null where"},
      {file_of(R"({"__metadata__":{"a":{}}})"), "an object where"},
      {file_of(R"({"__metadata__":"a"})"), "a string where an object"},
      {file_of(R"({"t":1})"), "a number where an object"},
      {file_of(R"({"t":true})"), "true or false where"},
      {file_of(tensor("")), "lacks one of"},
      {file_of(tensor(R"("dtype":"I32","shape":[2,2])"), data), "lacks one of"},
      {file_of(tensor(R"("dtype":"I32","dtype":"I32","shape":[2,2],"data_offsets":[0,16])"), data),
       "a field of tensor \"t\" stands twice"},
      {file_of(tensor(R"("dtype":"I32","size":[2,2],"data_offsets":[0,16])"), data), "a field other than"},
      {file_of(R"({"":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})", data), "has a name"},
      {file_of(R"({"a\u0000b":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})", data), "has a name"},
      {file_of(R"({"a\u001bb":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})", data), "has a name"},
      {file_of(R"({"a\u009bb":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})", data), "has a name"},
      {file_of("{\"" + std::string(513, 'n') + R"(":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})",
               data),
       "has a name"},
      // dtype, shape, offsets
      {with("\"I33\"", "[2,2]", "[0,16]"), "the dtype of tensor \"t\" is none"},
      {with("\"f32\"", "[2,2]", "[0,16]"), "the dtype of tensor \"t\" is none"},
      {with("7", "[2,2]", "[0,16]"), "a number where the dtype"},
      {with("\"I32\"", "4", "[0,16]"), "a number where the shape"},
      {with("\"I32\"", "[2,-2]", "[0,16]"), "a negative number where a size"},
      {with("\"I32\"", "[2,-0]", "[0,16]"), "a negative number where a size"},
      {with("\"I32\"", "[2,2.0]", "[0,16]"), "a fraction, an exponent or beyond 64 bits where a size"},
      {with("\"I32\"", "[2,2e0]", "[0,16]"), "a fraction, an exponent or beyond 64 bits where a size"},
      {with("\"I32\"", "[2,18446744073709551616]", "[0,16]"), "beyond 64 bits where a size"},
      {with("\"I32\"", "[2,1e400]", "[0,16]"), "not JSON"},
      {with("\"I32\"", "[2,\"2\"]", "[0,16]"), "a string where a size"},
      {with("\"I32\"", "[2,[2]]", "[0,16]"), "a list where a size"},
      {with("\"I32\"", "[4,1,1,1,1,1,1,1,1]", "[0,16]"), "more than 8 dimensions"},
      {with("\"I32\"", "[2," + max + "]", "[0,16]"), "overflows"},
      // The product wraps to 0, its bits wrap to 0, and 31 times 4 bits are not 15 bytes.
      {file_of(R"({"t":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
       "but has 0 bytes"},
      {file_of(R"({"t":{"dtype":"I32","shape":[576460752303423488],"data_offsets":[0,0]}})"),
       "but has 0 bytes"},
      {file_of(R"({"t":{"dtype":"F4","shape":[31],"data_offsets":[0,15]}})", data.substr(1)),
       "but has 15 bytes"},
      {with("\"I32\"", "[2,3]", "[0,16]"), "I32 [2, 3] but has 16 bytes"},
      {with("\"I32\"", "[2,2]", "[0,16,16]"), "has not two values"},
      {with("\"I32\"", "[2,2]", "[16]"), "has not two values"},
      {with("\"I32\"", "[2,2]", "[]"), "has not two values"},
      {with("\"I32\"", "[2,2]", "[-0,16]"), "a negative number where a byte offset"},
      {with("\"I32\"", "[2,2]", "[16,0]"), "reversed"},
      {with("\"I32\"", "[2,1]", "[8,16]"), "where byte 0 comes next"},
      {with("\"I32\"", "[2,2]", "[0," + max + "]"), "but has"},
      {file_of("{\"a\":" + half + "[0,8]},\"b\":" + half + "[4,12]}}", data), "where byte 8 comes next"},
      {file_of("{\"a\":" + half + "[0,8]},\"b\":" + half + "[0,8]}}", data.substr(8)),
       "where byte 8 comes next"},
      {file_of("{\"a\":" + half + "[0,8]},\"b\":" + half + "[9,17]}}", data + "x"),
       "where byte 8 comes next"},
      {file_of(many + "}", data), "where byte 16 comes next"},
  };
  for (const Case& one : cases) {
    const std::string reason = refusal(directory, one.content);
    CAPTURE(one.content.substr(0, 120), one.reason, reason);
    CHECK(reason.find("not a valid safetensors file: ") == 0);
    CHECK(reason.find(one.reason) != std::string::npos);
  }
}

TEST_CASE("safetensors: too many tensors are refused at the limit") {
  const TemporaryDirectory directory;
  std::string header = "{";
  for (int i = 0; i < 100'001; ++i) {
    header +=
        (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  CHECK(refusal(directory, file_of(header + "}")).find("more than 100000 tensors") != std::string::npos);
}

TEST_CASE("safetensors: every truncation is refused, and random damage never does more than that") {
  const TemporaryDirectory directory;
  const Sample sample;
  save(directory / "a", Writer(sample.entries()));
  const std::string whole = get(directory / "a");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    REQUIRE_FALSE(refusal(directory, whole.substr(0, length)).empty());
  }
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    const auto flips = 1 + random() % 3;
    for (std::uint32_t flip = 0; flip < flips; ++flip) {
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    }
    refusal(directory, damaged);  // accepted or refused with an Error; nothing else may happen
  }
}

TEST_CASE("safetensors: tensors that do not fit are listed") {
  const TemporaryDirectory directory;
  const Sample sample;
  save(directory / "a", Writer(sample.entries()));
  Files files;
  const Reader reader(files, directory / "a");
  std::vector<safetensors::TensorTarget> targets{{"h.0.mlp.weight", DType::F32, {2, 3}, nullptr},
                                                 {"bytes", DType::U8, {5}, nullptr},
                                                 {"a_scalar", DType::F32, {}, nullptr},
                                                 {"half", DType::BF16, {3, 1}, nullptr},
                                                 {"ids", DType::I64, {2}, nullptr},
                                                 {"empty", DType::F32, {0, 4}, nullptr}};
  CHECK_NOTHROW(reader.require(targets));
  targets[0].shape = {3, 2};
  targets[3].dtype = DType::F16;
  targets[4].name = "idz";
  try {
    reader.require(targets);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::file);
    CHECK(std::string(error.what()) ==
          "its tensors do not fit: \"h.0.mlp.weight\" is F32 [2, 3] where the model has F32 [3, 2]; "
          "\"half\" is BF16 [3, 1] where the model has F16 [3, 1]; \"idz\" is missing; \"ids\" is not "
          "expected");
  }
}
