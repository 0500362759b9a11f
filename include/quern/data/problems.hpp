// Tasks that need no data: questions drawn from a seed, each with its one right answer. A question is a pure
// function of (seed, split, index), so there is nothing to store, and no question of one split occurs in the
// other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "quern/base/fields.hpp"
#include "quern/text/tokenizer.hpp"

namespace quern {

enum class Split { train, val };

enum class ProblemKind { copy, reverse, sort, add, modular, dates, majority, parity, recall };

constexpr auto enum_names(ProblemKind) {
  return std::to_array<EnumName<ProblemKind>>({{ProblemKind::copy, "copy"},
                                               {ProblemKind::reverse, "reverse"},
                                               {ProblemKind::sort, "sort"},
                                               {ProblemKind::add, "add"},
                                               {ProblemKind::modular, "modular"},
                                               {ProblemKind::dates, "dates"},
                                               {ProblemKind::majority, "majority"},
                                               {ProblemKind::parity, "parity"},
                                               {ProblemKind::recall, "recall"}});
}

/// What an answer is to its question.
enum class Form {
  pair,     // a text of its own: copy, reverse, sort, add, modular, dates
  label,    // one of labels(): majority, parity
  aligned,  // one symbol for each of the question's, '.' where none counts: recall
};

/// Symbols are the first `symbols` of 0-9, a-z, A-Z, in this order.
///   copy      the question: "3071" -> "3071"
///   reverse   the question from its end: "3071" -> "1703"
///   sort      the question's symbols in order: "201021" -> "001122". As in minGPT's demonstration, half of
///             the questions have at most length / 2 different symbols (which says something beyond 3 symbols
///             of 6 only).
///   add       two numbers of `digits` digits -> their sum with digits + 1 digits, the last one first:
///             "12+34=" -> "640"
///   modular   division in the field of `modulus` elements, as words: "37 / 12 =" -> "92", as 92 * 12 = 37
///             mod 97 (Power et al. 2022, "Grokking")
///   dates     a day from 1900 to 2099 as people write it -> ISO 8601: "Tuesday, May 3, 1994" -> "1994-05-03"
///   majority  which symbol is the most frequent one: "20212" -> "2"; never a tie
///   parity    whether the ones in a row of 0 and 1 are an even or odd number: "10110" -> "odd"
///   recall    at each place the symbol `distance` places before: "31244" -> "..312" for distance 2
struct ProblemOptions {
  ProblemKind kind = ProblemKind::copy;
  std::int64_t length = 10;   // of a question, in symbols; copy, reverse, sort, majority, parity, recall
  std::int64_t symbols = 10;  // 2 … 62; copy, reverse, sort, majority, recall
  std::int64_t digits = 2;    // 1 … 18; add
  std::int64_t modulus = 97;  // a prime up to 9973; modular
  std::int64_t distance = 8;  // 1 … length - 1; recall
  std::uint64_t seed = 1;     // of all kinds
  double val_fraction = 0.1;  // the questions that are held out, of all possible ones; 0.001 … 0.999
};

/// The options under which a kind is known: sort with 6 of 3 symbols and a quarter held out (minGPT), modular
/// with half of the pairs held out, and so on.
ProblemOptions default_options(ProblemKind kind);

struct Problem {
  std::string question, answer;
};

/// The questions of one kind. A question that is drawn is held out exactly when a hash of it and the seed
/// falls below val_fraction (for dates: of the day, so that it is held out in every way of writing it); who
/// asks for one of the other split gets the next draw that belongs there. Questions may repeat within a
/// split. modular knows all its modulus * (modulus - 1) questions: in an order that the seed picks, the first
/// train_size(…, val_fraction) are for training, the others are held out, and each occurs once.
class Problems {
 public:
  /// Throws Error(config) for an option out of range, and for options that leave a split without a question.
  explicit Problems(const ProblemOptions& options);

  /// How many questions there are; 0: without end.
  std::int64_t count(Split split) const;

  /// Question `index` >= 0 of a split, below count(split) where that is not 0.
  Problem at(Split split, std::int64_t index) const;

  /// Words for modular, else characters: those of the questions and, for pairs, of the answers.
  Tokenizer tokenizer() const;

  Form form() const;

  /// All answers of the form `label`, else none.
  std::vector<std::string> labels() const;

  /// Tokens of the longest question and of the longest answer (a label is one, a '.' too).
  std::int64_t question_length() const;
  std::int64_t answer_length() const;

  /// Whether all questions are of one length and all answers too.
  bool fixed_length() const { return options_.kind != ProblemKind::dates; }

  const ProblemOptions& options() const { return options_; }

 private:
  ProblemOptions options_;
};

/// Where in a question of `dates` the month stands: its first byte and the one behind its last.
std::pair<std::size_t, std::size_t> month_in(const Problem& problem);

}  // namespace quern
