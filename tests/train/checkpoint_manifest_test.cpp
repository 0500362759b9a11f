#include "quern/train/checkpoint_manifest.hpp"

#include "catch.hpp"
#include "quern/base/check.hpp"
#include "train/checkpoint_fixture.hpp"
#include "train/resealed.hpp"

using namespace quern;
using quern::test::contains;
using quern::test::error_of;
using quern::test::resealed;

namespace {

CheckpointManifest sample() {
  CheckpointManifest manifest;
  manifest.step = 20;
  manifest.files = {{kModelFile, {4096, 17}}, {kOptimFile, {8192, 4294967295u}}, {kStateFile, {2, 0}}};
  manifest.tensors = {{"model/wte.weight", 99}, {"optim/wté \"m\"", 7}};
  return manifest;
}

}  // namespace

TEST_CASE("checkpoint manifest: read as written") {
  const CheckpointManifest written = sample();
  const std::string text = render_manifest(written);
  const CheckpointManifest read = parse_manifest(text, "m");
  CHECK(read.step == 20);
  CHECK(read.tensors == written.tensors);
  REQUIRE(read.files.size() == 3);
  CHECK(read.files.at(kOptimFile).size == 8192);
  CHECK(read.files.at(kOptimFile).crc32c == 4294967295u);
  CHECK(render_manifest(read) == text);
  const nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json["version"] == 1);
  CHECK(json["files"]["model.safetensors"]["size"] == 4096);
  CHECK(json["tensors"]["model/wte.weight"] == 99);
}

TEST_CASE("checkpoint manifest: every flipped bit and every truncation is found") {
  const std::string text = render_manifest(sample());
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    CAPTURE(bit, damaged);
    REQUIRE_THROWS_AS(parse_manifest(damaged, "m"), Error);
  }
  for (std::size_t length = 0; length < text.size(); ++length) {
    REQUIRE_THROWS_AS(parse_manifest(text.substr(0, length), "m"), Error);
  }
  REQUIRE_THROWS_AS(parse_manifest(text + "\n", "m"), Error);
}

TEST_CASE("checkpoint manifest: a newer version is told as such") {
  CHECK_THROWS_AS(
      parse_manifest(resealed(render_manifest(sample()), "\"version\": 1", "\"version\": 2"), "m"),
      OtherFormat);
  const Error error = error_of(
      [] { parse_manifest(resealed(render_manifest(sample()), "\"version\": 1", "\"version\": 2"), "m"); });
  CHECK(error.kind == ErrorKind::file);
  CHECK(std::string(error.what()) == "the checkpoint has format version 2; this program reads version 1");
  CHECK(error.place == "m");
}

TEST_CASE("checkpoint manifest: a right checksum does not excuse wrong fields") {
  const std::string good = render_manifest(sample());
  const auto refused = [&](const std::string& from, const std::string& to) {
    CAPTURE(from, to);
    const Error error = error_of([&] { parse_manifest(resealed(good, from, to), "m"); });
    CHECK(error.kind == ErrorKind::file);
    CHECK(contains(error.what(), "the manifest of the checkpoint is damaged"));
  };
  refused("\"version\": 1", "\"version\": \"1\"");
  refused("\"version\": 1", "\"release\": 1");
  refused("\"step\": 20", "\"step\": -20");
  refused("\"step\": 20", "\"step\": 2e1");
  refused("\"step\": 20", "\"step\": 18446744073709551615");
  refused("\"size\": 4096", "\"size\": 4096.0");
  refused("\"crc32c\": 17", "\"crc32c\": 4294967296");
  refused("state.json", "../../etc/passwd");
  refused("\"crc32c\": 17", "\"crc32c\": 17, \"more\": 1");
  refused("\"tensors\": {", "\"tensors\": [{");
  refused("99", "null");
  refused("\"step\": 20", "\"step\": 20, \"more\": 1");
}
