#include "services/tokenizer/sentencepiece/sentencepiece_normalizer.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/tokenizer/normalizers/chars_map.h"
#include "services/tokenizer/text/prefix_trie.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

class SentencePieceNormalizer : public Normalizer {
 public:
  SentencePieceNormalizer(const SentencePieceFile& file, std::optional<CharsMap> map)
      : add_dummy_prefix_(file.add_dummy_prefix),
        remove_extra_whitespaces_(file.remove_extra_whitespaces),
        space_(file.escape_whitespaces ? kVisibleSpace : " "),
        map_(std::move(map)) {
    std::vector<PrefixTrie::Entry> entries;
    for (const SentencePieceFile::Piece& piece : file.pieces) {
      if (piece.type != SentencePieceFile::PieceType::kUserDefined) continue;
      entries.emplace_back(piece.text, 0);
      has_user_defined_ = true;
    }
    user_defined_ = PrefixTrie(std::move(entries));
  }

  void Normalize(MappedText* text) const override {
    const std::string_view old = text->text();
    TextRewriter rewriter(*text);
    size_t at = remove_extra_whitespaces_ ? SkipSpaces(*text) : 0;
    if (at < old.size()) {
      if (add_dummy_prefix_) rewriter.Put(space_, at, at + ReadUtf8(old, at).length);
      NormalizeFrom(at, *text, &rewriter);
    }
    while (text->Pass(1) && remove_extra_whitespaces_ && rewriter.text().ends_with(space_)) {
      rewriter.Truncate(rewriter.text().size() - space_.size());
    }
    rewriter.Replace(text);
  }

 private:
  // The next characters of a text and what they become.
  struct Step {
    size_t length;
    std::string_view text;
  };
  Step StepAt(std::string_view text, size_t at) const {
    const std::string_view rest = text.substr(at);
    if (has_user_defined_) {
      const size_t length = user_defined_.Longest(rest).first;
      if (length > 0) return {length, rest.substr(0, length)};
    }
    if (map_.has_value()) {
      if (const auto match = map_->Longest(rest)) return {match->length, match->replacement};
    }
    const size_t length = ReadUtf8(text, at).length;
    return {length, rest.substr(0, length)};
  }

  size_t SkipSpaces(const MappedText& whole) const {
    const std::string_view text = whole.text();
    size_t at = 0;
    while (at < text.size() && whole.Pass(1)) {
      const Step step = StepAt(text, at);
      if (step.text != " ") break;
      at += step.length;
    }
    return at;
  }

  void NormalizeFrom(size_t at, const MappedText& text, TextRewriter* rewriter) const {
    const std::string_view old = text.text();
    bool after_space = remove_extra_whitespaces_;
    while (at < old.size() && text.Pass(1)) {
      Step step = StepAt(old, at);
      while (after_space && step.text.starts_with(' ')) step.text.remove_prefix(1);
      PutText(step.text, at, at + step.length, rewriter);
      if (!step.text.empty()) after_space = remove_extra_whitespaces_ && step.text.ends_with(' ');
      at += step.length;
    }
  }

  void PutText(std::string_view text, size_t begin, size_t end, TextRewriter* rewriter) const {
    while (!text.empty()) {
      const size_t size = std::min(text.find(' '), text.size());
      rewriter->Put(text.substr(0, size), begin, end);
      if (size == text.size()) return;
      rewriter->Put(space_, begin, end);
      text.remove_prefix(size + 1);
    }
  }

  const bool add_dummy_prefix_;
  const bool remove_extra_whitespaces_;
  const std::string_view space_;  // what a space becomes
  const std::optional<CharsMap> map_;
  bool has_user_defined_ = false;
  PrefixTrie user_defined_;  // pieces that no rule changes
};

}  // namespace

absl::StatusOr<std::unique_ptr<Normalizer>> MakeSentencePieceNormalizer(
    const SentencePieceFile& file) {
  std::optional<CharsMap> map;
  if (!file.precompiled_charsmap.empty()) {
    absl::StatusOr<CharsMap> parsed = CharsMap::Parse(file.precompiled_charsmap);
    if (!parsed.ok()) return parsed.status();
    map = *std::move(parsed);
  }
  return std::make_unique<SentencePieceNormalizer>(file, std::move(map));
}

}  // namespace sluice
