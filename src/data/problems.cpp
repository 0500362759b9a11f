#include "quern/data/problems.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "date_problems.hpp"
#include "draws.hpp"
#include "option_check.hpp"
#include "quern/base/check.hpp"
#include "quern/base/rng.hpp"
#include "quern/data/corpus.hpp"
#include "quern/data/windows.hpp"

namespace quern {
namespace {

constexpr std::string_view kSymbols = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::int64_t kMaxLength = 65536;

// Draws after which a split counts as empty: where a thousandth of many questions is held out, 100,000 draws
// miss it with probability 0.999^100000 = 4e-44.
constexpr std::uint32_t kDrawsToFind = 100'000;

// A split in which the constructor found a question gives the next one long before this.
constexpr std::uint32_t kMaxDraws = 1U << 30;

/// `count` of the first `of` symbols.
std::string symbols(Draws& draws, std::int64_t count, std::int64_t of) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += kSymbols[static_cast<std::size_t>(draws.below(of))];
  return text;
}

Problem draw_sort(Draws& draws, const ProblemOptions& o) {
  std::string question;
  const std::int64_t few = std::max<std::int64_t>(o.length / 2, 1);
  if (draws.below(2) == 0 && few < o.symbols) {
    // A random choice of `few` symbols, then symbols of these alone.
    std::string chosen(kSymbols.substr(0, static_cast<std::size_t>(o.symbols)));
    for (std::int64_t i = 0; i < few; ++i) {
      const auto at = static_cast<std::size_t>(i);
      std::swap(chosen[at], chosen[at + static_cast<std::size_t>(draws.below(o.symbols - i))]);
    }
    for (std::int64_t i = 0; i < o.length; ++i)
      question += chosen[static_cast<std::size_t>(draws.below(few))];
  } else {
    question = symbols(draws, o.length, o.symbols);
  }
  std::string answer = question;
  std::sort(answer.begin(), answer.end(), [](char a, char b) { return kSymbols.find(a) < kSymbols.find(b); });
  return {question, answer};
}

Problem draw_add(Draws& draws, const ProblemOptions& o) {
  std::int64_t numbers = 1;  // 10^digits
  for (std::int64_t i = 0; i < o.digits; ++i) numbers *= 10;
  const auto padded = [](std::int64_t n, std::int64_t width) {
    const std::string text = std::to_string(n);
    return std::string(static_cast<std::size_t>(width) - text.size(), '0') + text;
  };
  const std::int64_t a = draws.below(numbers), b = draws.below(numbers);
  std::string sum = padded(a + b, o.digits + 1);
  std::reverse(sum.begin(), sum.end());
  return {padded(a, o.digits) + "+" + padded(b, o.digits) + "=", sum};
}

/// Nothing when two symbols are equally frequent.
std::optional<Problem> draw_majority(Draws& draws, const ProblemOptions& o) {
  const std::string question = symbols(draws, o.length, o.symbols);
  std::vector<std::pair<std::ptrdiff_t, char>> counts;
  for (const char c : kSymbols.substr(0, static_cast<std::size_t>(o.symbols)))
    counts.emplace_back(std::count(question.begin(), question.end(), c), c);
  std::partial_sort(counts.begin(), counts.begin() + 2, counts.end(), std::greater<>());
  if (counts[0].first == counts[1].first) return std::nullopt;
  return Problem{question, std::string(1, counts[0].second)};
}

Problem draw_parity(Draws& draws, const ProblemOptions& o) {
  const std::string question = symbols(draws, o.length, 2);
  const bool odd = std::count(question.begin(), question.end(), '1') % 2 == 1;
  return {question, odd ? "odd" : "even"};
}

Problem draw_recall(Draws& draws, const ProblemOptions& o) {
  const std::string question = symbols(draws, o.length, o.symbols);
  return {question, std::string(static_cast<std::size_t>(o.distance), '.') +
                        question.substr(0, static_cast<std::size_t>(o.length - o.distance))};
}

std::optional<Problem> draw(Draws& draws, const ProblemOptions& o) {
  switch (o.kind) {
    case ProblemKind::copy: {
      const std::string question = symbols(draws, o.length, o.symbols);
      return Problem{question, question};
    }
    case ProblemKind::reverse: {
      const std::string question = symbols(draws, o.length, o.symbols);
      return Problem{question, {question.rbegin(), question.rend()}};
    }
    case ProblemKind::sort: return draw_sort(draws, o);
    case ProblemKind::add: return draw_add(draws, o);
    case ProblemKind::dates: return draw_date(draws);
    case ProblemKind::majority: return draw_majority(draws, o);
    case ProblemKind::parity: return draw_parity(draws, o);
    case ProblemKind::recall: return draw_recall(draws, o);
    case ProblemKind::modular: break;
  }
  throw Bug("this kind is not drawn");
}

Split split_of(const Problem& problem, const ProblemOptions& o) {
  constexpr std::uint64_t site = site_hash("data.problems.split");
  const std::string& key = o.kind == ProblemKind::dates ? problem.answer : problem.question;
  const auto bits = RandomStream(o.seed, site, 0).at(site_hash(key), 0);
  return uniform(bits[0]) < o.val_fraction ? Split::val : Split::train;
}

/// The first draw for (split, index) that belongs to the split, within `draws` draws.
std::optional<Problem> find(const ProblemOptions& o, Split split, std::int64_t index, std::uint32_t draws) {
  constexpr std::uint64_t site = site_hash("data.problems.draw");
  const std::uint64_t row = 2 * static_cast<std::uint64_t>(index) + (split == Split::val ? 1 : 0);
  for (std::uint32_t i = 0; i < draws; ++i) {
    Draws numbers(RandomStream(o.seed, site, i), row);
    std::optional<Problem> problem = draw(numbers, o);
    if (problem && split_of(*problem, o) == split) return problem;
  }
  return std::nullopt;
}

std::int64_t power_mod(std::int64_t base, std::int64_t exponent, std::int64_t modulus) {
  std::int64_t result = 1 % modulus;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = result * base % modulus;
    base = base * base % modulus;
  }
  return result;
}

/// Question k of modular: k counts the pairs (a, b) with 0 <= a < p, 0 < b < p.
Problem division(std::int64_t k, std::int64_t p) {
  const std::int64_t a = k / (p - 1), b = 1 + k % (p - 1);
  const std::int64_t inverse = power_mod(b, p - 2, p);  // Fermat: b^(p-1) = 1
  return {std::to_string(a) + " / " + std::to_string(b) + " =", std::to_string(a * inverse % p)};
}

std::int64_t divisions(const ProblemOptions& o) { return o.modulus * (o.modulus - 1); }

bool is_prime(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return n >= 2;
}

bool has_symbols(ProblemKind kind) {
  return kind == ProblemKind::copy || kind == ProblemKind::reverse || kind == ProblemKind::sort ||
         kind == ProblemKind::majority || kind == ProblemKind::recall;
}

void check_options(const ProblemOptions& o) {
  const std::string_view task = enum_name(o.kind);
  check_option(task, "val_fraction", o.val_fraction, between(0.001, 0.999),
               "a generated task is judged on questions that training never sees; 0.1 holds a tenth of them "
               "out");
  const double symbols_max = static_cast<double>(kSymbols.size());
  if (has_symbols(o.kind)) check_option(task, "symbols", o.symbols, between(2, symbols_max));
  if (has_symbols(o.kind) || o.kind == ProblemKind::parity)
    check_option(task, "length", o.length, between(o.kind == ProblemKind::recall ? 2 : 1, kMaxLength));
  if (o.kind == ProblemKind::recall)
    check_option(task, "distance", o.distance, between(1, static_cast<double>(o.length - 1)),
                 "what is recalled lies within data.length " + std::to_string(o.length));
  if (o.kind == ProblemKind::add) check_option(task, "digits", o.digits, between(1, 18));
  if (o.kind != ProblemKind::modular) return;
  check_option(task, "modulus", o.modulus, between(2, 9973));
  if (!is_prime(o.modulus)) {
    throw Error(ErrorKind::config,
                "data.modulus: must be a prime, found " + std::to_string(o.modulus) +
                    ", in which not every number has an inverse",
                "97 is the usual one");
  }
}

}  // namespace

ProblemOptions default_options(ProblemKind kind) {
  ProblemOptions o{.kind = kind};
  if (kind == ProblemKind::sort) o.length = 6, o.symbols = 3, o.val_fraction = 0.25;
  if (kind == ProblemKind::modular) o.val_fraction = 0.5;
  if (kind == ProblemKind::majority) o.length = 15, o.symbols = 3;
  if (kind == ProblemKind::recall) o.length = 64;
  return o;
}

Problems::Problems(const ProblemOptions& options) : options_(options) {
  check_options(options_);
  for (const Split split : {Split::train, Split::val}) {
    const bool any = options_.kind == ProblemKind::modular
                         ? count(split) > 0
                         : find(options_, split, 0, kDrawsToFind).has_value();
    if (any) continue;
    throw Error(ErrorKind::config,
                "data.val_fraction " + nlohmann::json(options_.val_fraction).dump() + " leaves no question " +
                    (split == Split::train ? "for training" : "held out") + ": data.task " +
                    std::string(enum_name(options_.kind)) + " has too few of them with these options",
                "longer questions of more symbols, or a data.val_fraction nearer to 0.5");
  }
}

std::int64_t Problems::count(Split split) const {
  if (options_.kind != ProblemKind::modular) return 0;
  const std::int64_t train = train_size(divisions(options_), options_.val_fraction);
  return split == Split::train ? train : divisions(options_) - train;
}

Problem Problems::at(Split split, std::int64_t index) const {
  QUERN_CHECK(index >= 0 && index < (std::int64_t{1} << 62), index);
  if (options_.kind != ProblemKind::modular) {
    const std::optional<Problem> found = find(options_, split, index, kMaxDraws);
    QUERN_CHECK(found.has_value(), index);
    return *found;
  }
  QUERN_CHECK(index < count(split), index, count(split));
  const std::int64_t place = split == Split::train ? index : count(Split::train) + index;
  const std::uint64_t k = permute(static_cast<std::uint64_t>(place),
                                  static_cast<std::uint64_t>(divisions(options_)), options_.seed, 0);
  return division(static_cast<std::int64_t>(k), options_.modulus);
}

Tokenizer Problems::tokenizer() const {
  if (options_.kind == ProblemKind::modular) {
    std::vector<std::string> words = {"/", "="};
    for (std::int64_t n = 0; n < options_.modulus; ++n) words.push_back(std::to_string(n));
    return Tokenizer::vocabulary(words);
  }
  std::string characters(kSymbols.substr(0, static_cast<std::size_t>(options_.symbols)));
  if (options_.kind == ProblemKind::add) characters = "0123456789+=";
  if (options_.kind == ProblemKind::dates) characters = date_characters();
  if (options_.kind == ProblemKind::parity) characters = "01";
  const Text text{characters, {}};
  return Tokenizer::characters({&text, 1});
}

Form Problems::form() const {
  switch (options_.kind) {
    case ProblemKind::majority:
    case ProblemKind::parity: return Form::label;
    case ProblemKind::recall: return Form::aligned;
    default: return Form::pair;
  }
}

std::vector<std::string> Problems::labels() const {
  if (options_.kind == ProblemKind::parity) return {"even", "odd"};
  std::vector<std::string> labels;
  if (options_.kind != ProblemKind::majority) return labels;
  for (const char c : kSymbols.substr(0, static_cast<std::size_t>(options_.symbols)))
    labels.emplace_back(1, c);
  return labels;
}

std::int64_t Problems::question_length() const {
  if (options_.kind == ProblemKind::add) return 2 * options_.digits + 2;
  if (options_.kind == ProblemKind::modular) return 4;
  return options_.kind == ProblemKind::dates ? longest_date() : options_.length;
}

std::int64_t Problems::answer_length() const {
  if (form() == Form::label || options_.kind == ProblemKind::modular) return 1;
  if (options_.kind == ProblemKind::add) return options_.digits + 1;
  return options_.kind == ProblemKind::dates ? 10 : options_.length;
}

}  // namespace quern
