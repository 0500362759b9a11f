#include "quern/data/corpus.hpp"

#include "quern/data/text_facts.hpp"
#include "target.hpp"

namespace quern::test {
namespace {

/// A text with each kind of tokenizer, in documents.
void read_corpus(std::string_view input) {
  const std::string path = input_file("x.txt", input);
  Files files;
  const bool utf8 = !describe_text(files, path, 16).invalid;
  for (const char* kind : {"byte", "char", "word"}) {
    try {
      const std::vector<TextFile> texts = read_texts({path});
      const Corpus corpus = make_corpus(texts, make_tokenizer(kind, texts), 0.5, 1, PackKind::documents);
      require(utf8 || corpus.tokenizer.kind() == Tokenizer::Kind::byte, "only bytes take what is not UTF-8");
      require(corpus.train().size() + corpus.val().size() > 0, "a corpus is not empty");
      if (corpus.tokenizer.kind() != Tokenizer::Kind::word)
        require(corpus.tokenizer.decode(corpus.tokenizer.encode(input)) == input, "what encodes comes back");
    } catch (const Error& error) {
      if (error.kind != ErrorKind::file) throw;
    }
  }
}

const RegisterTarget corpus({"corpus", read_corpus});

}  // namespace
}  // namespace quern::test
