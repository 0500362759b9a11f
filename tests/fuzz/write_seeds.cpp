// write_seeds TARGET DIRECTORY: the seeds of a target as files, for libFuzzer.
#include <filesystem>
#include <iostream>

#include "../base/temporary_directory.hpp"
#include "target.hpp"

int main(int count, char** words) {
  if (count != 3) {
    std::cerr << "usage: write_seeds TARGET DIRECTORY\n";
    return 2;
  }
  std::filesystem::create_directories(words[2]);
  int number = 0;
  for (const std::string& seed : quern::test::seeds_of(words[1]))
    quern::test::put(std::filesystem::path(words[2]) / ("seed-" + std::to_string(++number)), seed);
}
