// What a model learns from: the config's section "data".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "quern/base/fields.hpp"

namespace quern {

enum class TaskKind {
  text,
  classification,
  tagging,
  regression,
  translation,
  images,
  copy,
  reverse,
  sort,
  add,
  modular,
  dates,
  majority,
  parity,
  recall,
  shapes
};
enum class WindowOrder { random, shuffle };
enum class PackKind { none, documents };

constexpr auto enum_names(TaskKind) {
  return std::to_array<EnumName<TaskKind>>({{TaskKind::text, "text"},
                                            {TaskKind::classification, "classification"},
                                            {TaskKind::tagging, "tagging"},
                                            {TaskKind::regression, "regression"},
                                            {TaskKind::translation, "translation"},
                                            {TaskKind::images, "images"},
                                            {TaskKind::copy, "copy"},
                                            {TaskKind::reverse, "reverse"},
                                            {TaskKind::sort, "sort"},
                                            {TaskKind::add, "add"},
                                            {TaskKind::modular, "modular"},
                                            {TaskKind::dates, "dates"},
                                            {TaskKind::majority, "majority"},
                                            {TaskKind::parity, "parity"},
                                            {TaskKind::recall, "recall"},
                                            {TaskKind::shapes, "shapes"}});
}
constexpr auto enum_names(WindowOrder) {
  return std::to_array<EnumName<WindowOrder>>(
      {{WindowOrder::random, "random"}, {WindowOrder::shuffle, "shuffle"}});
}
constexpr auto enum_names(PackKind) {
  return std::to_array<EnumName<PackKind>>({{PackKind::none, "none"}, {PackKind::documents, "documents"}});
}

/// What the config of a run holds: labels, and bytes of them. As JSON text six times the bytes, at worst.
inline constexpr std::size_t most_labels = 65536, most_label_bytes = 2 << 20;

struct DataConfig {
  TaskKind task = TaskKind::text;
  std::vector<std::string> text;
  std::string tokenizer = "char";
  double val_fraction = 0.1;
  WindowOrder order = WindowOrder::random;
  PackKind pack = PackKind::none;
  std::int64_t eval_stride = 0;
  std::vector<std::string> source, target;
  std::vector<std::string> labels;
  std::int64_t length = 0;
  std::int64_t symbols = 0;
  std::int64_t digits = 0;
  std::int64_t modulus = 0;
  std::int64_t distance = 0;
  std::int64_t val_examples = 1000;

  void fields(FieldList& f) {
    f("task", task,
      "text: the next token of a text, or with an encoder its hidden ones. classification, tagging, "
      "regression, translation: lines of data.text with a label, tags, a number or another line. images: of "
      "data.text with a label. The others are drawn and need no data: texts to copy, reverse or sort, sums "
      "(add), division "
      "modulo a prime (modular), dates as people write them to ISO, the most frequent symbol (majority), "
      "parity, the symbol some places ago (recall), drawings (shapes).");
    f("text", text,
      "A path or a list of paths to text files, of the other tasks that need data JSON lines or tables with "
      "tabs; of images a folder, or IDX files of images and of labels. An empty list is the embedded corpus "
      "of stories.");
    f("tokenizer", tokenizer,
      "byte, char (the characters of the text), word (its words), or the path of a tokenizer file.");
    f("val_fraction", val_fraction, half_open(0, 1),
      "The tail of the text, or of the examples, kept for validation, and the share of drawn questions that "
      "are; 0 means none.");
    f("order", order, "random: windows at uniformly random starts; shuffle: every window once an epoch.");
    f("pack", pack,
      "none: the text is one stream; documents: attention and positions restart at each document, which ends "
      "with its file or behind an <|endoftext|>.");
    f("eval_stride", eval_stride, between(0, 1048576),
      "0: evaluation windows do not overlap; s: they advance by s and only the last s tokens of each count.");
    f("source", source,
      "translation: a path or a list of paths to lines to translate, in place of data.text.");
    f("target", target, "translation: the same number of files with their translations, line by line.");
    f("labels", labels, between(0, most_labels),
      "The labels or tags, in the order of their numbers; empty means those of the data.");
    f("length", length, between(0, 65536), "Symbols of a drawn text; 0 means 10, for sort 6, for recall 64.");
    f("symbols", symbols, between(0, 62), "Different symbols of a drawn text; 0 means 10, for sort 3.");
    f("digits", digits, between(0, 18), "add: digits of each number; 0 means 2.");
    f("modulus", modulus, between(0, 9973), "modular: the prime; 0 means 97.");
    f("distance", distance, between(0, 65535), "recall: how many places ago; 0 means 8.");
    f("val_examples", val_examples, between(1, 1e9),
      "Held-out examples that an evaluation of a drawn task takes.");
  }
};

}  // namespace quern
