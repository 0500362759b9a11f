// What a model learns from: the config's section "data".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "quern/base/fields.hpp"

namespace quern {

enum class TaskKind { text };
enum class WindowOrder { random, shuffle };
enum class PackKind { none, documents };

constexpr auto enum_names(TaskKind) { return std::to_array<EnumName<TaskKind>>({{TaskKind::text, "text"}}); }
constexpr auto enum_names(WindowOrder) {
  return std::to_array<EnumName<WindowOrder>>(
      {{WindowOrder::random, "random"}, {WindowOrder::shuffle, "shuffle"}});
}
constexpr auto enum_names(PackKind) {
  return std::to_array<EnumName<PackKind>>({{PackKind::none, "none"}, {PackKind::documents, "documents"}});
}

struct DataConfig {
  TaskKind task = TaskKind::text;
  std::vector<std::string> text;
  std::string tokenizer = "char";
  double val_fraction = 0.1;
  WindowOrder order = WindowOrder::random;
  PackKind pack = PackKind::none;
  std::int64_t eval_stride = 0;

  void fields(FieldList& f) {
    f("task", task, "text: predict the next token of a text.");
    f("text", text,
      "A path or a list of paths to text files; an empty list is the embedded corpus of stories.");
    f("tokenizer", tokenizer, "byte, char (the characters of the text), or the path of a tokenizer file.");
    f("val_fraction", val_fraction, half_open(0, 1),
      "The tail of the text kept for validation; 0 means none.");
    f("order", order, "random: windows at uniformly random starts; shuffle: every window once an epoch.");
    f("pack", pack,
      "none: the text is one stream; documents: attention and positions restart at each document, which ends "
      "with its file or behind an <|endoftext|>.");
    f("eval_stride", eval_stride, between(0, 1048576),
      "0: evaluation windows do not overlap; s: they advance by s and only the last s tokens of each count.");
  }
};

}  // namespace quern
