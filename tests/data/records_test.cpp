#include "quern/data/records.hpp"

#include <string>
#include <vector>

#include "../base/temporary_directory.hpp"
#include "catch.hpp"
#include "error_of.hpp"

using namespace quern;
using test::error_of;

namespace {

struct Scratch : test::TemporaryDirectory {
  std::string write(const std::string& name, const std::string& content) const {
    test::put(path() / name, content);
    return (path() / name).string();
  }
};

using Words = std::vector<std::string>;

std::vector<Record> all(const RecordSet& set) {
  std::vector<Record> records;
  set.each([&](const Record& record) { records.push_back(record); });
  CHECK(set.size() == static_cast<std::int64_t>(records.size()));
  return records;
}

}  // namespace

TEST_CASE("lines of JSON become records of each kind", "[data]") {
  const Scratch scratch;
  const std::string labels = scratch.write("a.jsonl",
                                           "{\"text\": \"good \\u00e9\", \"label\": \"yes\"}\r\n"
                                           "\n"
                                           "{\"label\": \"no\", \"text\": \"bad\\tone\"}\n"
                                           "{\"label\": \"no\", \"text\": \" \"}\n"
                                           "{\"label\": \"\", \"text\": \"x\"}");
  const RecordSet set = read_records(labels, RecordKind::label);
  REQUIRE(all(set).size() == 2);
  CHECK(set.skipped() == 3);
  CHECK(all(set)[0].text == "good \xC3\xA9");
  CHECK(all(set)[0].label == "yes");
  CHECK(all(set)[0].place == labels + ":1");
  CHECK(all(set)[1].text == "bad\tone");
  CHECK(all(set)[1].place == labels + ":3");

  const std::string tags = scratch.write("t.jsonl",
                                         "{\"tokens\": [\"Ann\", \"runs\"], \"tags\": [\"N\", \"V\"]}\n"
                                         "{\"tokens\": [], \"tags\": []}\n");
  const RecordSet tagged = read_records(tags, RecordKind::tags);
  REQUIRE(all(tagged).size() == 1);
  CHECK(tagged.skipped() == 1);
  CHECK(all(tagged)[0].tokens == Words{"Ann", "runs"});
  CHECK(all(tagged)[0].tags == Words{"N", "V"});

  const std::string values = scratch.write("v.json", "{\"text\": \"a\", \"value\": -2.5}\n");
  CHECK(all(read_records(values, RecordKind::value))[0].value == -2.5);
  const std::string pairs = scratch.write("p.jsonl", "{\"source\": \"a b\", \"target\": \"c\"}\n");
  CHECK(all(read_records(pairs, RecordKind::pair))[0].text == "a b");
  CHECK(all(read_records(pairs, RecordKind::pair))[0].target == "c");
}

TEST_CASE("columns become records of each kind", "[data]") {
  const Scratch scratch;
  const std::string labels = scratch.write("a.tsv", "good one\tyes\r\n\t\nbad\tno\nx\t \n  \n");
  const RecordSet set = read_records(labels, RecordKind::label);
  REQUIRE(all(set).size() == 2);
  CHECK(set.skipped() == 3);
  CHECK(all(set)[0].text == "good one");
  CHECK(all(set)[0].label == "yes");
  CHECK(all(set)[1].place == labels + ":3");

  const RecordSet tagged = read_records(scratch.write("t.tsv", "Ann  runs \tN V\n"), RecordKind::tags);
  CHECK(all(tagged)[0].tokens == Words{"Ann", "runs"});
  CHECK(all(tagged)[0].tags == Words{"N", "V"});
  const RecordSet values =
      read_records(scratch.write("v.tsv", "a\t1e-3\nb\t -7 \nc\t3.4e38\n"), RecordKind::value);
  CHECK(all(values)[0].value == 1e-3);
  CHECK(all(values)[1].value == -7);
  CHECK(all(values)[2].value == 3.4e38);
  CHECK(all(read_records(scratch.write("p.txt", "a b\tc d"), RecordKind::pair))[0].target == "c d");
}

TEST_CASE("a fault in a record is one message with its place", "[data]") {
  const Scratch scratch;
  struct Fault {
    RecordKind kind;
    std::string name, content, place, what, hint;
  };
  const std::string good = "{\"text\": \"a\", \"label\": \"b\"}\n";
  const std::vector<Fault> faults = {
      {RecordKind::label, "a.jsonl", good + "{\"text\": \"a\", \"lable\": \"b\"}\n", ":2:15",
       "unknown key \"lable\"", "did you mean \"label\"?"},
      {RecordKind::label, "a.jsonl", good + "{\"text\": \"a\", \"id\": 7, \"label\": \"b\"}\n", ":2:15",
       "unknown key \"id\"", "a record has \"text\" and \"label\" alone"},
      {RecordKind::label, "a.jsonl", good + "{\"text\": \"a\"}\n", ":2:1", "the key \"label\" is missing",
       ""},
      {RecordKind::label, "a.jsonl", good + "{\"text\": \"a\", \"label\": 3}\n", ":2:24",
       "expected a string, found 3", ""},
      {RecordKind::label, "a.jsonl", good + "{\"text\": \"a\",\n", ":2:14", "invalid JSON", ""},
      {RecordKind::label, "a.jsonl", good + "\n[1]\n", ":3:1", "expected an object, found a list", ""},
      {RecordKind::label, "a.jsonl", good + "{\"text\": \"\xFF\", \"label\": \"b\"}\n", ":2:11",
       "is not UTF-8", "save it as UTF-8"},
      {RecordKind::label, "a.jsonl", "\xEF\xBB\xBF" + good, ":1", "begins with a byte order mark", ""},
      {RecordKind::value, "a.jsonl", "{\"text\": \"a\", \"value\": \"3\"}\n", ":1:24",
       "expected a number, found \"3\"", ""},
      {RecordKind::tags, "a.jsonl", "\n{\"tokens\": [\"a\", \"b\"], \"tags\": [\"N\"]}\n", ":2",
       "2 tokens and 1 tag", "each token has one tag"},
      {RecordKind::tags, "a.jsonl", "{\"tokens\": [\"New York\"], \"tags\": [\"N\"]}\n", ":1:13",
       "expected one word, found \"New York\"", ""},
      {RecordKind::tags, "a.jsonl", "{\"tokens\": \"New York\", \"tags\": [\"N\"]}\n", ":1:12",
       "expected a list", ""},
      {RecordKind::label, "a.tsv", "a\tb\nc\n", ":2",
       "expected two columns with a tab between them, found one", "the columns are text and label"},
      {RecordKind::tags, "a.tsv", "a\tb\tc\n", ":1", "expected two columns with a tab between them, found 3",
       "the columns are tokens and tags"},
      {RecordKind::tags, "a.tsv", "a b c\tN V\n", ":1", "3 tokens and 2 tags", ""},
      {RecordKind::value, "a.tsv", "a\t1\nb\t1,5\n", ":2", "expected a number, found \"1,5\"", ""},
      {RecordKind::value, "a.tsv", "a\t3 apples\n", ":1", "expected a number", ""},
      {RecordKind::value, "a.tsv", "a\tnan\n", ":1", "expected a number", ""},
      {RecordKind::value, "a.tsv", "a\t1e999\n", ":1", "expected a number", ""},
      {RecordKind::value, "a.tsv", "a\t-inf\n", ":1", "expected a number", ""},
      {RecordKind::value, "a.tsv", "a\t1\nb\t 1e300 \n", ":2",
       "expected a number from -3.4e38 to 3.4e38, found \"1e300\"",
       "values are 32-bit floats: divide all of them by the same number"},
      {RecordKind::value, "a.tsv", "a\t-1e39\n", ":1", "expected a number from -3.4e38 to 3.4e38", ""},
      {RecordKind::value, "a.jsonl", "{\"text\": \"a\", \"value\": 1e39}\n", ":1:24",
       "expected a number from -3.4e38 to 3.4e38, found 1e+39", "divide all of them by the same number"},
      {RecordKind::value, "a.jsonl", "{\"text\": \"a\", \"value\": 1" + std::string(40, '0') + "}\n", ":1:24",
       "expected a number from -3.4e38 to 3.4e38", ""},
      {RecordKind::value, "a.jsonl", "{\"text\": \"a\", \"value\": 1e999}\n", ":1:24", "", ""},
      {RecordKind::value, "a.jsonl", "{\"text\": \"a\", \"value\": NaN}\n", ":1:24", "", ""},
      {RecordKind::label, "a.tsv", "a\tb\n\x1B\xC3(\tx\n", ":2:2", "is not UTF-8", ""},
      {RecordKind::label, "a.tsv", "a\tb\nc\t" + std::string(1, '\0') + "\n", ":2",
       "the label \"\\x00\" holds a NUL character", "a config cannot hold it"},
      {RecordKind::label, "a.jsonl", "{\"text\": \"a\", \"label\": \"b\\u0000\"}\n", ":1",
       "the label \"b\\x00\" holds a NUL character", ""},
      {RecordKind::tags, "a.tsv", "a b\tN " + std::string(1, '\0') + "\n", ":1",
       "the label \"\\x00\" holds a NUL character", ""},
      {RecordKind::tags, "a.jsonl", "{\"tokens\": [\"a\"], \"tags\": [\"\\u0000\"]}\n", ":1",
       "the label \"\\x00\" holds a NUL character", ""},
      {RecordKind::label, "a.tsv", "\n\t\nx\t\n", "", "no record: all of the 3 lines are blank", ""},
      {RecordKind::label, "a.tsv", "", "", "the text is empty", ""},
  };
  for (const Fault& fault : faults) {
    INFO(fault.content);
    const std::string path = scratch.write(fault.name, fault.content);
    const Error error = error_of([&] { read_records(path, fault.kind); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(error.place == path + fault.place);
    CHECK(std::string(error.what()).rfind(fault.what, 0) == 0);
    CHECK(error.hint.find(fault.hint) != std::string::npos);
  }
  CHECK(error_of([&] { read_records(scratch.write("a.csv", "a,b\n"), RecordKind::label); }).kind ==
        ErrorKind::config);
  CHECK(error_of([&] { read_records((scratch / "none.tsv").string(), RecordKind::label); }).kind ==
        ErrorKind::file);
  const std::string small = scratch.write("small.tsv", "a\tb\n");
  CHECK_NOTHROW(read_records(small, RecordKind::label, 12));
  CHECK(error_of([&] { read_records(small, RecordKind::label, 11); }).kind == ErrorKind::file);
}

TEST_CASE("control characters of a file do not reach the terminal", "[data]") {
  const Scratch scratch;
  const std::string path = scratch.write("a.tsv", "a\t\x1B[31m7\n");
  const Error error = error_of([&] { read_records(path, RecordKind::value); });
  CHECK(std::string(error.what()).find('\x1B') == std::string::npos);
}

TEST_CASE("two files are read line by line", "[data]") {
  const Scratch scratch;
  const std::string source = scratch.write("a.de", "eins\n\nzwei\tx\ndrei\n\n \n");
  const std::string target = scratch.write("a.en", "one\r\nnone\r\ntwo\r\n\r\n");
  const RecordSet set = read_parallel(source, target);
  REQUIRE(all(set).size() == 2);
  CHECK(set.skipped() == 4);  // lines 2 and 4, and the blank 5 and 6 of the longer file
  CHECK(all(set)[0].text == "eins");
  CHECK(all(set)[0].target == "one");
  CHECK(all(set)[1].text == "zwei\tx");
  CHECK(all(set)[1].place == source + ":3");

  const std::string shorter = scratch.write("b.en", "one\ntwo\n");
  const Error error = error_of([&] { read_parallel(source, shorter); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(error.place == source + ":3");
  CHECK(std::string(error.what()) ==
        "a line without a partner: " + source + " has 6 lines, " + shorter + " has 2 lines");
  const Error other = error_of([&] { read_parallel(shorter, source); });
  CHECK(other.place == source + ":3");
  CHECK(other.what() != std::string(error.what()));
  CHECK(error_of([&] { read_parallel(scratch.write("e", ""), source); }).kind == ErrorKind::file);
  CHECK(error_of([&] { read_parallel(scratch.write("e", "\xFF\n"), source); }).place ==
        (scratch / "e").string() + ":1:1");
  CHECK(error_of([&] { read_parallel(scratch.write("e", "\n"), scratch.write("f", "\n")); }).kind ==
        ErrorKind::file);
}
