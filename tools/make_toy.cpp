// Writes the embedded corpus: toy.txt, toy.heldout.txt and toy.meta.json. The same seed gives the same bytes.
//
//   make_toy OUTDIR [--seed N]
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "toy_grammar.hpp"

namespace {

bool write(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) std::cerr << "make_toy: cannot write " << path << '\n';
  return static_cast<bool>(file);
}

std::optional<std::uint64_t> parse_seed(std::string_view word) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), seed);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return seed;
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<std::uint64_t> seed = quern::toy::default_seed;
  if (argc == 4 && std::string_view(argv[2]) == "--seed") {
    seed = parse_seed(argv[3]);
  } else if (argc != 2) {
    seed.reset();
  }
  if (!seed) {
    std::cerr << "usage: make_toy OUTDIR [--seed N]\n";
    return 2;
  }
  const quern::toy::Corpus corpus = quern::toy::make_corpus(*seed);
  const std::string folder = argv[1];
  const bool written = write(folder + "/toy.txt", corpus.train.text) &&
                       write(folder + "/toy.heldout.txt", corpus.heldout.text) &&
                       write(folder + "/toy.meta.json", corpus.meta);
  if (!written) return 1;
  std::cout << corpus.meta;
  return 0;
}
