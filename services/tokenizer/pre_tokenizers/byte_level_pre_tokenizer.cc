#include "services/tokenizer/pre_tokenizers/byte_level_pre_tokenizer.h"

#include <optional>
#include <string>
#include <utility>

#include "services/tokenizer/pre_tokenizers/split_patterns.h"
#include "services/tokenizer/pre_tokenizers/split_pre_tokenizer.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/mapped_text.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, std::optional<Regex> regex)
      : add_prefix_space_(add_prefix_space), regex_(std::move(regex)) {}

 private:
  absl::Status SplitText(const Piece& piece, RegexScratch& scratch, PieceSink sink) const override {
    if (!add_prefix_space_ || piece.text.front() == ' ') return SplitPrefixed(piece, scratch, sink);
    TextRewriter rewriter(piece.text, piece.map, piece.map_begin, piece.pace);
    // The space belongs to the first character.
    rewriter.Put(" ", 0, ReadUtf8(piece.text, 0).length);
    rewriter.Keep(0, piece.text.size());
    if (absl::Status status = piece.Pass(0); !status.ok()) return status;
    return SplitPrefixed({.text = rewriter.text(),
                          .map = rewriter.map(),
                          .at_begin = piece.at_begin,
                          .pace = piece.pace},
                         scratch, sink);
  }

  absl::Status SplitPrefixed(const Piece& piece, RegexScratch& scratch, PieceSink sink) const {
    const auto spell = [&](Piece part) {
      part.byte_level = true;
      return sink(part);
    };
    if (!regex_.has_value()) return spell(piece);
    return SplitAtMatches(*regex_, SplitOptions{}, piece, scratch, spell);
  }

  const bool add_prefix_space_;
  const std::optional<Regex> regex_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreTokenizer>> ByteLevelPreTokenizerFromJson(
    const JsonPlace& place) {
  JsonFields fields = place.Fields();
  const std::optional<bool> add_prefix_space = fields.Bool("add_prefix_space");
  if (!add_prefix_space.has_value()) fields.Reject("add_prefix_space", "true or false");
  const bool use_regex = fields.Bool("use_regex").value_or(true);
  if (!fields.status().ok()) return fields.status();
  std::optional<Regex> regex;
  if (use_regex) {
    absl::StatusOr<Regex> compiled = Regex::Compile(kGpt2Pattern);
    if (!compiled.ok()) return place.Annotate(compiled.status());
    regex = *std::move(compiled);
  }
  return std::make_unique<ByteLevelPreTokenizer>(*add_prefix_space, std::move(regex));
}

absl::StatusOr<std::unique_ptr<PreTokenizer>> MakeByteLevelPreTokenizer(
    const std::string& pattern) {
  absl::StatusOr<Regex> regex = Regex::Compile(pattern);
  if (!regex.ok()) return regex.status();
  return std::make_unique<ByteLevelPreTokenizer>(false, *std::move(regex));
}

}  // namespace sluice
