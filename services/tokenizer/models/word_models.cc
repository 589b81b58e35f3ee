#include "services/tokenizer/models/word_models.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

class WordModel : public Model {
 public:
  WordModel(const Vocabulary& vocabulary, WordModelOptions options)
      : vocabulary_(vocabulary), options_(std::move(options)) {}

  std::unique_ptr<ModelScratch> NewScratch() const override { return std::make_unique<Scratch>(); }

  void Tokenize(const Piece& piece, ModelScratch& scratch, Encoding* out) const override {
    (void)SpellOut(piece, [&](const Piece& word) {
      auto& parts = static_cast<Scratch&>(scratch);
      parts.found.clear();
      if (!Split(word.text, parts)) {
        parts.found = {{options_.unk_token, {0, static_cast<uint32_t>(word.text.size())}}};
      }
      for (const Part& part : parts.found) Append(word, part, out);
      return absl::OkStatus();
    });
  }

 protected:
  struct Part {
    TokenId id;
    ByteRange range;
  };
  struct Scratch : ModelScratch {
    std::vector<Part> found;
    std::string spelling;
  };

  // Finds the tokens of a word, or returns false.
  virtual bool Split(std::string_view word, Scratch& scratch) const = 0;

  TokenId Find(std::string_view text) const {
    const TokenId id = vocabulary_.Find(text);
    return options_.control_tokens.contains(id) ? kNoToken : id;
  }

 private:
  static void Append(const Piece& word, const Part& part, Encoding* out) {
    if (part.id == kNoToken) return;
    out->ids.push_back(part.id);
    if (word.map != nullptr) out->offsets.push_back(word.Source(part.range.begin, part.range.end));
  }

  const Vocabulary& vocabulary_;
  const WordModelOptions options_;
};

class WordLevelModel : public WordModel {
 public:
  using WordModel::WordModel;

 private:
  bool Split(std::string_view word, Scratch& scratch) const override {
    const TokenId id = Find(word);
    if (id != kNoToken) scratch.found.push_back({id, {0, static_cast<uint32_t>(word.size())}});
    return id != kNoToken;
  }
};

class WordPieceModel : public WordModel {
 public:
  WordPieceModel(const Vocabulary& vocabulary, WordModelOptions options, WordPieceOptions pieces)
      : WordModel(vocabulary, std::move(options)), pieces_(std::move(pieces)) {
    for (TokenId id = 0; id < vocabulary.id_limit(); ++id) {
      if (vocabulary.Has(id)) max_token_ = std::max(max_token_, vocabulary.Text(id).size());
    }
  }

 private:
  bool Split(std::string_view word, Scratch& scratch) const override {
    const auto is_start = [](char byte) { return !IsUtf8Continuation(byte); };
    if (std::count_if(word.begin(), word.end(), is_start) > pieces_.max_chars) return false;
    for (size_t begin = 0; begin < word.size();) {
      const Part part = LongestAt(word, begin, scratch);
      if (part.id == kNoToken || !scratch.Pass(max_token_)) return false;
      scratch.found.push_back(part);
      begin = part.range.end;
    }
    return true;
  }

  Part LongestAt(std::string_view word, size_t begin, Scratch& scratch) const {
    std::string& spelling = scratch.spelling;
    spelling = begin > 0 ? pieces_.continuing_subword_prefix : "";
    const size_t prefix_size = spelling.size();
    if (prefix_size > max_token_) return {kNoToken, {}};
    // No token is longer.
    spelling += word.substr(begin, max_token_ - prefix_size);
    for (size_t size = spelling.size(); size > prefix_size; --size) {
      const TokenId id = Find(std::string_view(spelling).substr(0, size));
      if (id == kNoToken) continue;
      return {id,
              {static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + size - prefix_size)}};
    }
    return {kNoToken, {}};
  }

  const WordPieceOptions pieces_;
  size_t max_token_ = 0;  // bytes
};

}  // namespace

std::unique_ptr<Model> MakeWordLevelModel(const Vocabulary& vocabulary, WordModelOptions options) {
  return std::make_unique<WordLevelModel>(vocabulary, std::move(options));
}

std::unique_ptr<Model> MakeWordPieceModel(const Vocabulary& vocabulary, WordModelOptions options,
                                          WordPieceOptions pieces) {
  return std::make_unique<WordPieceModel>(vocabulary, std::move(options), std::move(pieces));
}

}  // namespace sluice
