#include "quern/data/problems.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"

using namespace quern;

namespace {

const std::vector<ProblemKind> kinds = {ProblemKind::copy,     ProblemKind::reverse, ProblemKind::sort,
                                        ProblemKind::add,      ProblemKind::modular, ProblemKind::dates,
                                        ProblemKind::majority, ProblemKind::parity,  ProblemKind::recall};

const std::string symbols = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

std::int64_t draws_of(const Problems& problems, Split split, std::int64_t wanted) {
  const std::int64_t count = problems.count(split);
  return count == 0 ? wanted : std::min(count, wanted);
}

Error error_of(const ProblemOptions& options) {
  try {
    Problems problems(options);
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  throw Bug("unreachable");
}

/// Days from 1 January 1900, a Monday, counted month by month.
int days_since_1900(int year, int month, int day) {
  const auto leap = [](int y) { return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0); };
  int days = day - 1;
  for (int y = 1900; y < year; ++y) days += leap(y) ? 366 : 365;
  const int lengths[] = {31, leap(year) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  for (int m = 1; m < month; ++m) days += lengths[m - 1];
  return day > lengths[month - 1] ? -1 : days;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The ISO date that a question names, by its parts alone: the four digits are the year, the one or two the
/// day, a word the month; a word for the weekday must be right.
std::string read_date(const std::string& question) {
  static const std::vector<std::string> months = {"jan", "feb", "mar", "apr", "may", "jun",
                                                  "jul", "aug", "sep", "oct", "nov", "dec"};
  static const std::vector<std::string> weekdays = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
  std::string plain = lower(question);
  for (char& c : plain)
    if (std::string(",.-").find(c) != std::string::npos) c = ' ';
  int year = 0, month = 0, day = 0;
  int weekday = -1;
  std::istringstream in(plain);
  for (std::string word; in >> word;) {
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      const int number = std::stoi(word);
      if (number >= 1900) {
        year = number;
      } else {
        (day == 0 ? day : month) = number;  // 03.05.1994: the day first
      }
      continue;
    }
    const auto in_list = [&](const auto& list) {
      return static_cast<int>(std::find(list.begin(), list.end(), word.substr(0, 3)) - list.begin());
    };
    if (word == "of" || word == "the") continue;
    if (in_list(months) < 12) {
      month = in_list(months) + 1;
    } else if (in_list(weekdays) < 7) {
      weekday = in_list(weekdays);
    } else {
      return "the word " + word;
    }
  }
  const int days = days_since_1900(year, month, day);
  if (days < 0) return "no such day";
  if (weekday >= 0 && days % 7 != weekday) return "a wrong weekday";
  char iso[40];
  std::snprintf(iso, sizeof iso, "%04d-%02d-%02d", year, month, day);
  return iso;
}

/// Whether the answer is right, found in another way than it was made.
bool is_right(const ProblemOptions& o, const Problem& p) {
  const auto count = [&](char c) { return std::count(p.question.begin(), p.question.end(), c); };
  std::istringstream in(p.question);
  switch (o.kind) {
    case ProblemKind::copy: return p.answer == p.question;
    case ProblemKind::reverse:
      for (std::size_t i = 0; i < p.question.size(); ++i)
        if (p.answer.at(p.answer.size() - 1 - i) != p.question[i]) return false;
      return p.answer.size() == p.question.size();
    case ProblemKind::sort: {
      std::string sorted;
      for (const char c : symbols) sorted += std::string(static_cast<std::size_t>(count(c)), c);
      return p.answer == sorted;
    }
    case ProblemKind::add: {
      long a = 0, b = 0, sum = 0;
      char plus = 0, equals = 0;
      in >> a >> plus >> b >> equals;
      for (std::size_t i = p.answer.size(); i-- > 0;) sum = 10 * sum + (p.answer[i] - '0');
      return plus == '+' && equals == '=' && sum == a + b &&
             p.answer.size() == static_cast<std::size_t>(o.digits + 1);
    }
    case ProblemKind::modular: {
      long a = 0, b = 0;
      std::string slash, equals;
      in >> a >> slash >> b >> equals;
      const long c = std::stol(p.answer);
      return slash == "/" && equals == "=" && b > 0 && b < o.modulus && a >= 0 && a < o.modulus && c >= 0 &&
             c < o.modulus && (b * c - a) % o.modulus == 0;
    }
    case ProblemKind::dates: return read_date(p.question) == p.answer;
    case ProblemKind::majority: {
      for (const char c : symbols)
        if (c != p.answer.at(0) && count(c) >= count(p.answer[0])) return false;
      return p.answer.size() == 1;
    }
    case ProblemKind::parity: {
      bool odd = false;
      for (const char c : p.question) odd = odd != (c == '1');
      return p.answer == (odd ? "odd" : "even");
    }
    case ProblemKind::recall:
      for (std::size_t t = 0; t < p.question.size(); ++t) {
        const auto d = static_cast<std::size_t>(o.distance);
        if (p.answer.at(t) != (t < d ? '.' : p.question[t - d])) return false;
      }
      return p.answer.size() == p.question.size();
  }
  return false;
}

}  // namespace

TEST_CASE("splits never share a question and every answer is right, over 10,000 draws", "[data]") {
  for (const ProblemKind kind : kinds) {
    CAPTURE(enum_name(kind));
    const ProblemOptions options = default_options(kind);
    const Problems problems(options);
    std::map<std::string, Split> seen;
    int wrong = 0, shared = 0, unlike = 0;
    for (const Split split : {Split::train, Split::val}) {
      const std::int64_t draws = draws_of(problems, split, 10'000);
      for (std::int64_t i = 0; i < draws; ++i) {
        const Problem p = problems.at(split, i);
        wrong += !is_right(options, p);
        shared += seen.emplace(p.question, split).first->second != split;
        if (i % 100 != 0) continue;
        const Problem again = Problems(options).at(split, i);  // no state
        unlike += again.question != p.question || again.answer != p.answer;
      }
    }
    CHECK(wrong == 0);
    CHECK(shared == 0);
    CHECK(unlike == 0);
  }
}

TEST_CASE("another seed draws other questions and holds others out", "[data]") {
  for (const ProblemKind kind : kinds) {
    CAPTURE(enum_name(kind));
    ProblemOptions options = default_options(kind);
    const Problems one(options);
    options.seed = 2;
    const Problems two(options);
    std::set<std::string> held_out;
    for (std::int64_t i = 0; i < draws_of(one, Split::val, 2000); ++i)
      held_out.insert(one.at(Split::val, i).question);
    int same = 0, trained = 0;
    for (std::int64_t i = 0; i < 1000; ++i) {
      const Problem p = two.at(Split::train, i);
      same += p.question == one.at(Split::train, i).question;
      trained += held_out.count(p.question) > 0;
    }
    CHECK(same < 50);
    // What seed 1 holds out and its 2,000 draws found, seed 2 trains on, where there are few questions.
    if (kind == ProblemKind::sort || kind == ProblemKind::modular) CHECK(trained > 100);
  }
}

TEST_CASE("val_fraction of the questions is held out", "[data]") {
  // 10^4 questions of 4 digits: 3,000 are held out, with a standard deviation of sqrt(10^4 * 0.3 * 0.7) = 46.
  // 100,000 draws from 3,000 leave each out with probability e^-33.
  const Problems problems({.kind = ProblemKind::copy, .length = 4, .val_fraction = 0.3});
  std::set<std::string> held_out;
  for (std::int64_t i = 0; i < 100'000; ++i) held_out.insert(problems.at(Split::val, i).question);
  CHECK(std::abs(static_cast<int>(held_out.size()) - 3000) < 5 * 46);
}

TEST_CASE("every possible question is drawn, about equally often", "[data]") {
  std::map<std::string, int> counts;
  const Problems problems({.kind = ProblemKind::copy, .length = 2, .symbols = 5, .val_fraction = 0.5});
  for (std::int64_t i = 0; i < 10'000; ++i) ++counts[problems.at(Split::train, i).question];
  const std::size_t of_train = counts.size();
  for (std::int64_t i = 0; i < 10'000; ++i) ++counts[problems.at(Split::val, i).question];
  CHECK(counts.size() == 25);
  CHECK(of_train >= 5);
  CHECK(of_train <= 20);
  // Each of a split's n <= 20 questions is drawn 10,000 / n times, standard deviation below 32 and 100.
  for (const auto& [question, count] : counts) {
    CAPTURE(question);
    CHECK(count > 10'000 / 20 - 5 * 32);
    CHECK(count < 10'000 / 5 + 5 * 100);
  }
}

TEST_CASE("modular lists every pair once", "[data]") {
  const Problems problems(default_options(ProblemKind::modular));
  CHECK(problems.count(Split::train) == 97 * 96 / 2);
  CHECK(problems.count(Split::val) == 97 * 96 / 2);
  std::set<std::string> all;
  for (const Split split : {Split::train, Split::val})
    for (std::int64_t i = 0; i < problems.count(split); ++i) all.insert(problems.at(split, i).question);
  CHECK(all.size() == 97 * 96);
  CHECK_THROWS_AS(problems.at(Split::val, 97 * 96 / 2), Bug);
  CHECK_THROWS_AS(problems.at(Split::train, -1), Bug);

  const Problems third({.kind = ProblemKind::modular, .modulus = 7, .val_fraction = 0.3});
  CHECK(third.count(Split::train) == 29);  // floor(0.7 * 42)
  CHECK(third.count(Split::val) == 13);
}

TEST_CASE("the tokenizer knows what is asked and answered, and lengths are what they say", "[data]") {
  for (const ProblemKind kind : kinds) {
    CAPTURE(enum_name(kind));
    const Problems problems(default_options(kind));
    const Tokenizer tokenizer = problems.tokenizer();
    const std::vector<std::string> labels = problems.labels();
    std::set<std::string> answers;
    std::set<std::size_t> question_lengths, answer_lengths;
    for (std::int64_t i = 0; i < 3000; ++i) {
      const Problem p = problems.at(Split::train, i);
      const auto question = tokenizer.encode(p.question);
      CHECK(tokenizer.decode(question) == p.question);
      question_lengths.insert(question.size());
      if (problems.form() == Form::label) {
        answers.insert(p.answer);
        continue;
      }
      std::string counted = p.answer;
      if (problems.form() == Form::aligned) std::erase(counted, '.');
      CHECK(tokenizer.decode(tokenizer.encode(counted)) == counted);
      answer_lengths.insert(kind == ProblemKind::modular ? tokenizer.encode(p.answer).size()
                                                         : p.answer.size());
    }
    CHECK(static_cast<std::int64_t>(*question_lengths.rbegin()) == problems.question_length());
    CHECK((question_lengths.size() == 1) == problems.fixed_length());
    CHECK(labels == std::vector<std::string>(answers.begin(), answers.end()));
    if (problems.form() == Form::label) {
      CHECK(problems.answer_length() == 1);
    } else {
      CHECK(answer_lengths == std::set<std::size_t>{static_cast<std::size_t>(problems.answer_length())});
    }
  }
  CHECK(Problems(default_options(ProblemKind::copy)).tokenizer().vocab_size() == 10);
  CHECK(Problems(default_options(ProblemKind::modular)).tokenizer().vocab_size() == 97 + 2 + 2);
  CHECK(Problems(default_options(ProblemKind::dates)).form() == Form::pair);
  CHECK(Problems(default_options(ProblemKind::recall)).form() == Form::aligned);
}

TEST_CASE("questions of wide alphabets are sorted digits, small, capital; half have few symbols", "[data]") {
  const ProblemOptions options{.kind = ProblemKind::sort, .length = 20, .symbols = 62};
  const Problems problems(options);
  int few = 0;
  std::set<char> used;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const Problem p = problems.at(Split::train, i);
    CHECK(is_right(options, p));
    const std::set<char> distinct(p.question.begin(), p.question.end());
    few += distinct.size() <= 10;
    used.insert(distinct.begin(), distinct.end());
  }
  // 1,000 of 2,000, standard deviation 22; 20 draws of 62 symbols have 10 different ones or fewer with
  // probability below 1e-3.
  CHECK(std::abs(few - 1000) < 5 * 22 + 2);
  CHECK(used.size() == 62);
}

TEST_CASE("the month of a date is found in every way of writing it", "[data]") {
  const Problems problems(default_options(ProblemKind::dates));
  std::set<std::string> shapes, months, days;
  for (std::int64_t i = 0; i < 20'000; ++i) {
    const Problem p = problems.at(Split::train, i);
    const auto [begin, end] = month_in(p);
    const std::string found = p.question.substr(begin, end - begin);
    // Without the month the rest does not say it; the part itself does.
    std::string one = p.question;
    one.replace(begin, end - begin, "June");
    const std::string changed = read_date(one);
    CHECK((changed.substr(5, 2) == "06" || changed == "a wrong weekday" || changed == "no such day"));
    months.insert(lower(found));
    days.insert(p.answer);
    std::string shape = p.question;
    for (char& c : shape)
      if (std::isdigit(static_cast<unsigned char>(c))) c = '0';
    shapes.insert(shape);
  }
  CHECK(months.size() == 12 + 11 + 12);  // names, abbreviations (May is both), numbers
  CHECK(days.size() > 15'000);           // of 73,049; 20,000 draws meet 17,500
  CHECK(days.begin()->substr(0, 2) == "19");
  CHECK(days.rbegin()->substr(0, 3) == "209");
}

TEST_CASE("the answers of the examples", "[data]") {
  const auto answer = [](const ProblemOptions& options, const std::string& question) {
    const Problems problems(options);
    for (const Split split : {Split::train, Split::val})
      for (std::int64_t i = 0; i < draws_of(problems, split, 200'000); ++i)
        if (const Problem p = problems.at(split, i); p.question == question) return p.answer;
    return std::string("not drawn");
  };
  CHECK(answer({.kind = ProblemKind::reverse, .length = 4}, "3071") == "1703");
  CHECK(answer({.kind = ProblemKind::sort, .length = 6, .symbols = 3}, "201021") == "001122");
  CHECK(answer({.kind = ProblemKind::add}, "12+34=") == "640");
  CHECK(answer({.kind = ProblemKind::modular}, "37 / 12 =") == "92");
  CHECK(answer({.kind = ProblemKind::majority, .length = 5, .symbols = 3}, "20212") == "2");
  CHECK(answer({.kind = ProblemKind::parity, .length = 5}, "10110") == "odd");
  CHECK(answer({.kind = ProblemKind::recall, .length = 5, .symbols = 5, .distance = 2}, "31244") == "..312");
}

TEST_CASE("options that make no two splits are refused at once", "[data]") {
  const auto refused = [](const ProblemOptions& options, const std::string& what) {
    const Error error = error_of(options);
    INFO(error.what());
    CHECK(error.kind == ErrorKind::config);
    CHECK(std::string(error.what()).rfind(what, 0) == 0);
  };
  refused({.val_fraction = 0}, "data.val_fraction: must be from 0.001 to 0.999 for data.task copy, found 0");
  refused({.val_fraction = 1}, "data.val_fraction");
  refused({.symbols = 1}, "data.symbols: must be from 2 to 62 for data.task copy, found 1");
  refused({.symbols = 63}, "data.symbols");
  refused({.length = 0}, "data.length");
  refused({.kind = ProblemKind::parity, .length = 100'000}, "data.length");
  refused({.kind = ProblemKind::recall, .length = 8, .distance = 8}, "data.distance: must be from 1 to 7");
  refused({.kind = ProblemKind::recall, .length = 1, .distance = 1}, "data.length");
  refused({.kind = ProblemKind::add, .digits = 19}, "data.digits");
  refused({.kind = ProblemKind::modular, .modulus = 91}, "data.modulus: must be a prime, found 91");
  refused({.kind = ProblemKind::modular, .modulus = 1}, "data.modulus");
  refused({.kind = ProblemKind::modular, .modulus = 2, .val_fraction = 0.9}, "data.val_fraction 0.9 leaves");
  refused({.length = 1, .symbols = 2, .val_fraction = 0.001}, "data.val_fraction 0.001 leaves no question");
  // Options that do not matter are not looked at; the largest that do work.
  CHECK_NOTHROW(Problems({.kind = ProblemKind::parity, .symbols = 0, .modulus = 0}));
  CHECK_NOTHROW(Problems({.kind = ProblemKind::add, .digits = 18}).at(Split::val, 5));
  CHECK_NOTHROW(Problems({.kind = ProblemKind::modular, .modulus = 9973}).at(Split::val, 5));
}
