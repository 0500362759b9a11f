#include "date_problems.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "quern/base/check.hpp"

namespace quern {
namespace {

namespace chrono = std::chrono;

constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};
constexpr std::string_view kWeekdays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                          "Thursday", "Friday", "Saturday"};

// How days are written. %d 3, %0 03, %o 3rd; %M May, %m may, %B its first three letters, %N 05; %W Tuesday,
// %w tuesday, %E its first three letters; %Y 1994. None of them can be read as two different days.
constexpr std::string_view kWritings[] = {"%d %M %Y", "%M %d, %Y",   "%w %d %m %Y",        "%0.%N.%Y",
                                          "%Y %M %o", "%o of %M %Y", "%E, %d %B %Y",       "%W, %M %d, %Y",
                                          "%m %o %Y", "%d-%B-%Y",    "%W the %o of %M %Y", "%d %m %Y"};

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

std::string two_digits(unsigned n) { return std::string(n < 10 ? "0" : "") + std::to_string(n); }

/// 1st, 2nd, 3rd, 4th, 11th, 21st …
std::string ordinal(unsigned day) {
  constexpr std::string_view endings[] = {"th", "st", "nd", "rd"};
  const unsigned last = day / 10 == 1 || day % 10 > 3 ? 0 : day % 10;
  return std::to_string(day) + std::string(endings[last]);
}

struct Day {
  unsigned year, month, day;  // month and day from 1
  std::string_view weekday;
};

Day day_of(chrono::sys_days days) {
  const chrono::year_month_day date(days);
  return {static_cast<unsigned>(static_cast<int>(date.year())), static_cast<unsigned>(date.month()),
          static_cast<unsigned>(date.day()), kWeekdays[chrono::weekday(days).c_encoding()]};
}

std::string written(const Day& date, std::string_view writing) {
  const std::string_view month = kMonths[date.month - 1];
  std::string text;
  for (std::size_t i = 0; i < writing.size(); ++i) {
    if (writing[i] != '%') {
      text += writing[i];
      continue;
    }
    switch (writing[++i]) {
      case 'd': text += std::to_string(date.day); break;
      case '0': text += two_digits(date.day); break;
      case 'o': text += ordinal(date.day); break;
      case 'M': text += month; break;
      case 'm': text += lower(month); break;
      case 'B': text += month.substr(0, 3); break;
      case 'N': text += two_digits(date.month); break;
      case 'W': text += date.weekday; break;
      case 'w': text += lower(date.weekday); break;
      case 'E': text += date.weekday.substr(0, 3); break;
      case 'Y': text += std::to_string(date.year); break;
      default: throw Bug("a way of writing with an unknown part");
    }
  }
  return text;
}

std::string iso(const Day& date) {
  return std::to_string(date.year) + "-" + two_digits(date.month) + "-" + two_digits(date.day);
}

}  // namespace

Problem draw_date(Draws& draws) {
  using namespace std::chrono_literals;
  constexpr chrono::sys_days first = 1900y / 1 / 1, end = 2100y / 1 / 1;
  const Day date = day_of(first + chrono::days(draws.below((end - first).count())));
  const auto writing = static_cast<std::size_t>(draws.below(std::ssize(kWritings)));
  return {written(date, kWritings[writing]), iso(date)};
}

std::string date_characters() {
  std::string all = "0123456789-";
  for (unsigned month = 1; month <= 12; ++month)
    for (unsigned day = 1; day <= 4; ++day)
      for (const std::string_view weekday : kWeekdays)
        for (const std::string_view writing : kWritings) all += written({1900, month, day, weekday}, writing);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::int64_t longest_date() {
  std::size_t longest = 0;
  for (const std::string_view writing : kWritings)
    longest = std::max(longest, written({1900, 9, 30, "Wednesday"}, writing).size());
  return static_cast<std::int64_t>(longest);
}

std::pair<std::size_t, std::size_t> month_in(const Problem& problem) {
  const std::size_t month = std::stoul(problem.answer.substr(5, 2));
  const std::string name = lower(kMonths[month - 1]), question = lower(problem.question);
  for (const std::string& word : {name, name.substr(0, 3)}) {
    if (const std::size_t at = question.find(word); at != question.npos) return {at, at + word.size()};
  }
  const std::size_t dot = question.find('.');  // 03.05.1994
  QUERN_CHECK(dot != question.npos, question);
  return {dot + 1, dot + 3};
}

}  // namespace quern
