#include "quern/train/config.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "catch.hpp"

using namespace quern;

namespace {

Config make(const std::vector<std::string>& sets, Origins* origins = nullptr) {
  return merge_config({}, std::nullopt, sets, origins);
}
Config read(const std::string& text, Origins* origins = nullptr) {
  return merge_config({{"c", text}}, std::nullopt, {}, origins);
}

/// The printed errors, "" when there are none.
std::string errors(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::config);
    return format(error);
  }
  return "";
}
std::string errors(const std::vector<std::string>& sets) {
  return errors([&] { make(sets); });
}

/// "<0x1B>" is the byte 27.
std::string with_bytes(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "<0x") == 0) {
      out += static_cast<char>(std::stoi(text.substr(i + 3, 2), nullptr, 16));
      i += 5;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct HostileCase {
  int line = 0;  // in the fixture
  std::string text;
  std::string expected;
};

std::vector<HostileCase> hostile_cases() {
  std::ifstream file(QUERN_SOURCE_DIR "/tests/fixtures/hostile_configs.txt");
  REQUIRE(file.good());
  std::vector<HostileCase> cases(1);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    HostileCase& current = cases.back();
    if (line.empty()) {
      if (!current.expected.empty()) cases.emplace_back();
    } else if (line.starts_with("=> ")) {
      current.expected += line.substr(3) + "\n";
    } else if (!line.starts_with("#")) {
      if (current.text.empty()) current.line = number;
      current.text += (current.text.empty() ? "" : "\n") + with_bytes(line);
    }
  }
  if (cases.back().expected.empty()) cases.pop_back();
  return cases;
}

/// In the fixture's form.
std::string outcome(const std::string& text) {
  try {
    read(text);
    return "valid\n";
  } catch (const ConfigErrors& error) {
    std::string all;
    for (const ConfigErrors::Item& item : error.items)
      all += item.place.substr(2) + " " + item.what + (item.hint.empty() ? "" : " | " + item.hint) + "\n";
    return all;
  }
}

}  // namespace

TEST_CASE("hostile configs: every mistake, its place and its hint") {
  const std::vector<HostileCase> cases = hostile_cases();
  CHECK(cases.size() >= 200);
  for (const HostileCase& each : cases) {
    CAPTURE(each.line, each.text);
    CHECK(outcome(each.text) == each.expected);
  }
}

TEST_CASE("a config nested 100,000 deep, or with a long key, is one mistake") {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"run\":";
  CHECK(outcome(deep) == "1:449 nested deeper than 64 levels\n");
  const std::string key(500000, 'k');
  CHECK(outcome("{\"" + key + "\": 1}") ==
        "1:2 " + std::string(60, 'k') + "...: unknown key | `quern config fields` lists all keys\n");
}

TEST_CASE("200 mistakes are told, the others counted") {
  std::string text = "{\"a0\": 0";
  for (int i = 1; i < 1000; ++i) text += ", \"a" + std::to_string(i) + "\": 0";
  try {
    read(text + "}");
    FAIL("no error");
  } catch (const ConfigErrors& error) {
    CHECK(error.items.size() == 201);
    CHECK(error.items.back().what == "and 800 more mistakes");
  }
}

TEST_CASE("the printed form") {
  CHECK(errors([] {
          merge_config(
              {{"my cfg.json", "{\n  \"optim\": {\n    \"lerning_rate\": 1,\n    \"eps\": 0\n  }\n}"}},
              std::nullopt, {"run.max_steps=x"});
        }) ==
        "error[config]: optim.lerning_rate: unknown key\n  --> my cfg.json:3:5\n"
        "  help: did you mean \"learning_rate\"?\n"
        "error[config]: optim.eps: must be from 1e-30 to 1e+30, found 0\n  --> my cfg.json:4:12\n"
        "error[config]: run.max_steps: expected an integer, found \"x\"\n  --> --set run.max_steps=x\n");
}

TEST_CASE("--set: JSON, else a string") {
  CHECK(make({"run.max_steps=20"}).run.max_steps == 20);
  CHECK(make({"run.max_steps=1e3"}).run.max_steps == 1000);
  CHECK(make({"run.max_steps=5", "run.max_steps=6"}).run.max_steps == 6);
  CHECK(make({"optim.learning_rate=3e-3"}).optim.learning_rate == 3e-3);
  CHECK(make({"model.bias=false"}).model.bias == false);
  CHECK(make({"model.activation=relu"}).model.activation == Activation::relu);
  CHECK(make({"model.activation=\"relu\""}).model.activation == Activation::relu);
  CHECK(make({"optim.betas=[0.8, 0.9]"}).optim.betas == std::array<double, 2>{0.8, 0.9});
  CHECK(make({"optim.betas.0=0.8"}).optim.betas == std::array<double, 2>{0.8, 0.95});
  CHECK(make({"data.text=a.txt"}).data.text == std::vector<std::string>{"a.txt"});
  CHECK(make({"data.text=[\"a\", \"b\"]"}).data.text == std::vector<std::string>{"a", "b"});
  CHECK(make({"data.text.0=a", "data.text.1=b"}).data.text == std::vector<std::string>{"a", "b"});
  CHECK(make({"data.text=//server/a.txt"}).data.text == std::vector<std::string>{"//server/a.txt"});
  CHECK(make({"run.name=2024"}).run.name == "2024");
  CHECK(make({"run.name=true"}).run.name == "true");
  CHECK(make({"watch.sample_prompt="}).watch.sample_prompt.empty());
  CHECK(make({"watch.sample_prompt=a=b"}).watch.sample_prompt == "a=b");
  CHECK(make({"watch.sample_prompt=\"a\\nb\""}).watch.sample_prompt == "a\nb");
  CHECK(make({"about=x"}).about == "x");
  CHECK(make({"run.seed=18446744073709551615"}).run.seed == 18446744073709551615u);
}

TEST_CASE("--set key=null goes back to the default") {
  Origins origins;
  const Config config =
      merge_config({{"c", "{\"run\": {\"max_steps\": 7}}"}}, std::nullopt, {"run.max_steps=null"}, &origins);
  CHECK(config.run.max_steps == Config{}.run.max_steps);
  CHECK(origins.at("run.max_steps") == "default");
}

TEST_CASE("--set: mistakes") {
  const auto first = [](const std::string& set) { return errors(std::vector<std::string>{set}); };
  CHECK(first("run.max_steps") ==
        "error[config]: expected KEY=VALUE, found \"run.max_steps\"\n  --> --set run.max_steps\n"
        "  help: for example --set run.max_steps=20\n");
  CHECK(first("=3") ==
        "error[config]: expected KEY=VALUE, found \"=3\"\n  --> --set =3\n"
        "  help: for example --set run.max_steps=20\n");
  CHECK(first("run.max_step=3") ==
        "error[config]: run.max_step: unknown key\n  --> --set run.max_step=3\n"
        "  help: did you mean \"run.max_steps\"?\n");
  CHECK(first("learning_rate=3") ==
        "error[config]: learning_rate: unknown key\n  --> --set learning_rate=3\n"
        "  help: did you mean \"optim.learning_rate\"?\n");
  CHECK(first("run={}") ==
        "error[config]: run: is a section, not a value\n  --> --set run={}\n"
        "  help: for example --set run.max_steps=20\n");
  CHECK(first("run.max_steps=3.7") ==
        "error[config]: run.max_steps: expected an integer, found 3.7\n  --> --set run.max_steps=3.7\n");
  CHECK(first("optim.learning_rate=NaN") ==
        "error[config]: optim.learning_rate: expected a number, found \"NaN\"\n  --> --set "
        "optim.learning_rate=NaN\n");
  CHECK(first("optim.betas.2=0.5") ==
        "error[config]: optim.betas.2: the list has 2 entries\n  --> --set optim.betas.2=0.5\n");
  CHECK(first("optim.eps.0=0.5") ==
        "error[config]: optim.eps.0: optim.eps is no list\n  --> --set optim.eps.0=0.5\n");
  CHECK(first("run.name=\xFF") ==
        "error[config]: run.name: expected UTF-8 text, found \"\\xff\"\n  --> --set run.name=\\xff\n");
  CHECK(first("model.\x1b=1").find('\x1b') == std::string::npos);
}

TEST_CASE("the order of precedence and the origins") {
  const std::vector<ConfigText> files = {{"a", "{\"run\": {\"max_steps\": 1, \"threads\": 1, \"seed\": 1}}"},
                                         {"b", "{\"run\":\n {\"max_steps\": 2, \"batch_size\": 2}}"}};
  Origins origins;
  Config config = merge_config(files, "3", {"run.batch_size=4"}, &origins);
  CHECK(config.run.max_steps == 2);
  CHECK(config.run.threads == 3);
  CHECK(config.run.seed == 1);
  CHECK(config.run.batch_size == 4);
  CHECK(origins.at("run.max_steps") == "b:2:16");
  CHECK(origins.at("run.threads") == "QUERN_THREADS");
  CHECK(origins.at("run.seed") == "a:1:48");
  CHECK(origins.at("run.batch_size") == "--set");
  CHECK(origins.at("run.name") == "default");
  CHECK(origins.size() == fields_of(config).fields.size());
  CHECK(merge_config(files, "3", {"run.threads=5"}).run.threads == 5);
  CHECK(merge_config(files, "", {}).run.threads == 1);
  CHECK(errors([&] { merge_config(files, "many", {}); }) ==
        "error[config]: run.threads: expected an integer, found \"many\"\n  --> QUERN_THREADS=many\n");
}

TEST_CASE("mistakes come in the order of the sources") {
  try {
    merge_config({{"a", "{\"run\": {\"x\": 1}, \"model\": {\"n_heads\": 3}}"}, {"b", "{"}}, "x", {"y=1"});
    FAIL("accepted");
  } catch (const ConfigErrors& error) {
    std::vector<std::string> places;
    for (const auto& item : error.items) places.push_back(item.place);
    CHECK(places == std::vector<std::string>{"a:1:10", "a:1:40", "b:1:2", "QUERN_THREADS=x", "--set y=1"});
  }
}

TEST_CASE("a cross-field mistake stands where one of the fields was stated") {
  CHECK(
      errors(std::vector<std::string>{"model.n_heads=3"}) ==
      "error[config]: model.d_model: 128 is not divisible by model.n_heads (3)\n  --> --set model.n_heads=3\n"
      "  help: each head takes d_model / n_heads of the width\n");
}

TEST_CASE("files that cannot be read") {
  const std::string missing = QUERN_SOURCE_DIR "/configs/tyo.json";
  CHECK(errors([&] {
          load_config({missing, QUERN_SOURCE_DIR "/configs"}, {"x=1"});
        }) == "error[config]: cannot read the config: no such file\n  --> " + missing +
                  "\n  help: did you mean \"" + QUERN_SOURCE_DIR "/configs/toy.json\"?\n" +
                  "error[config]: cannot read the config: is a directory where a file is needed\n  --> " +
                  QUERN_SOURCE_DIR "/configs\n" + "error[config]: x: unknown key\n  --> --set x=1\n" +
                  "  help: `quern config fields` lists all keys\n");
}

TEST_CASE("every file in configs/ is valid and says what it is for") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(QUERN_SOURCE_DIR "/configs")) {
    CAPTURE(entry.path().string());
    ++count;
    Origins origins;
    const Config config = load_config({entry.path().string()}, {}, &origins);
    CHECK_FALSE(config.about.empty());
    CHECK(config.run.name == entry.path().stem().string());
    // Only differences from the defaults.
    CHECK(differences(Config{}, config).size() + 1 >=
          static_cast<std::size_t>(std::count_if(origins.begin(), origins.end(), [](const auto& origin) {
            return origin.second != "default" && origin.second != "QUERN_THREADS";
          })));
    CHECK_NOTHROW(load_config({entry.path().string()}, {"run.max_steps=5"}));
  }
  CHECK(count >= 5);
}

TEST_CASE("a config as JSON reads back to itself") {
  Config config;
  config.about = "é \"quoted\"";
  config.optim.learning_rate = 0.1 + 0.2;
  config.run.seed = 18446744073709551615u;
  config.data.text = {"a", "b c"};
  CHECK(differences(config, read(to_json(config))).empty());
}

TEST_CASE("the config of a run with as many labels as can be is read back") {
  Config config;
  for (std::size_t i = 0; i < 65536; ++i) config.data.labels.push_back("\x7F\x01" + std::to_string(i));
  CHECK(read(to_json(config)).data.labels == config.data.labels);
  config.data.labels.emplace_back("one more");
  CHECK(errors([&] { read(to_json(config)); }) ==
        "error[config]: data.labels: expected a list of at most 65536 entries, found 65537\n  --> c:48:16\n");
  // Two mebibytes of labels may take twelve as text.
  config.data.labels = {std::string(1 << 20, '\x01'), std::string((1 << 20) - 1, '\x7F')};
  CHECK(read(to_json(config)).data.labels == config.data.labels);
  CHECK(to_json(config).size() < max_config_bytes);
}

TEST_CASE("a config that could not be read back is not written") {
  Config config;
  config.data.text = {"/tmp/\xFFx/text.txt"};
  CHECK(errors([&] { to_json(config); }) ==
        "error[config]: the path is not UTF-8, which a run's config has to be\n"
        "  --> /tmp/\xFFx/text.txt\n  help: rename the folder or the file\n");
  config.data.text.assign(4096, std::string(4096, 'a'));
  CHECK(errors([&] { to_json(config); }).starts_with("error[config]: the run's config would have 16"));
}

TEST_CASE("the config as given holds what was stated") {
  Origins origins;
  const Config config = merge_config({{"c", "{\"about\": \"x\", \"run\": {\"seed\": 1337}}"}}, std::nullopt,
                                     {"model.d_model=64"}, &origins);
  CHECK(given_json(config, origins) ==
        "{\n  \"about\": \"x\",\n  \"model\": {\n    \"d_model\": 64\n  },\n  \"run\": {\n    \"seed\": "
        "1337\n  }\n}\n");
}

TEST_CASE("zeros that the config settles") {
  Config config = resolved(make({"model.d_model=64", "run.max_steps=10"}));
  CHECK(config.model.d_ff == 256);
  CHECK(config.model.n_kv_heads == 4);
  CHECK(config.schedule.decay_steps == 10);
  CHECK(config.model.vocab_size == 0);
  config.run.max_steps = 20;
  CHECK(resolved(config).schedule.decay_steps == 10);
  CHECK(resolved(make({"model.d_ff=5"})).model.d_ff == 5);
  CHECK(resolved(make({"model.activation=swiglu"})).model.d_ff == 344);  // 8/3 * 128 = 341.3
  CHECK(resolved(make({"model.activation=geglu", "model.d_model=48"})).model.d_ff == 128);
}

TEST_CASE(
    "wsd's cooldown is a fifth of the steps, or what the warmup leaves, and a resolved config is one again") {
  for (const std::int64_t warmup : {0, 30, 41, 49}) {
    Config config;
    config.run.max_steps = 50;
    config.schedule.kind = ScheduleKind::wsd;
    config.schedule.warmup_steps = warmup;
    validate(config);
    const Config once = resolved(config);
    CHECK(once.schedule.cooldown_steps == std::min<std::int64_t>(10, 50 - warmup));
    CHECK_NOTHROW(validate(once));
    CHECK(differences(once, resolved(once)).empty());
  }
}

TEST_CASE("vocabulary against tokenizer") {
  ModelConfig model;
  CHECK(checked_vocab_size(model, 65) == 65);
  model.vocab_size = 128;
  CHECK(checked_vocab_size(model, 65) == 128);
  Origins origins;
  model = make({"model.vocab_size=50"}, &origins).model;
  CHECK(errors([&] { checked_vocab_size(model, 65, &origins); }) ==
        "error[config]: model.vocab_size: 50 is below the tokenizer's 65 tokens\n  --> --set "
        "model.vocab_size=50\n"
        "  help: leave it out for the tokenizer's number\n");
}

TEST_CASE("configs made in code are checked too") {
  Config config;
  CHECK_NOTHROW(validate(config));
  config.model.n_heads = 3;
  CHECK(errors([&] { validate(config); }) ==
        "error[config]: model.d_model: 128 is not divisible by model.n_heads (3)\n"
        "  help: each head takes d_model / n_heads of the width\n");
  config.model.n_heads = 0;
  config.optim.eps = 0;
  CHECK(errors([&] { validate(config); }) ==
        "error[config]: model.n_heads: must be from 1 to 65536, found 0\n"
        "error[config]: optim.eps: must be from 1e-30 to 1e+30, found 0.0\n");
}

TEST_CASE("what a resume may change") {
  const Config run = resolved(make({"run.max_steps=10"}));
  Config wanted = run;
  wanted.run.max_steps = 20;
  wanted.run.threads = 1;
  wanted.run.eval_interval = 1;
  wanted.run.checkpoint_interval = 1;
  wanted.run.keep_checkpoints = 5;
  wanted.watch = {1, 2, "x", 3};
  CHECK(frozen_differences(run, wanted).empty());
  wanted.optim.learning_rate = 0.5;
  wanted.model.activation = Activation::relu;
  CHECK(format(frozen_differences(run, wanted)) ==
        "  model.activation: \"gelu\" in the run, \"relu\" asked for\n"
        "  optim.learning_rate: 0.001 in the run, 0.5 asked for\n");
  // The fields that may change, held against the whole list so that a new field is frozen until somebody says
  // more.
  Config config;
  std::string free;
  for (const Field& field : fields_of(config).fields)
    if (may_change_at_resume(field.path)) free += field.path + " ";
  CHECK(free ==
        "run.max_steps run.threads run.eval_interval run.checkpoint_interval run.keep_checkpoints "
        "watch.log_interval watch.sample_interval watch.sample_prompt watch.sample_tokens watch.tensorboard "
        "watch.histogram_interval ");
}
