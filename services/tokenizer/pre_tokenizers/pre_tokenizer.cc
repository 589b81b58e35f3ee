#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "services/tokenizer/pre_tokenizers/byte_level_pre_tokenizer.h"
#include "services/tokenizer/pre_tokenizers/char_pre_tokenizers.h"
#include "services/tokenizer/pre_tokenizers/metaspace_pre_tokenizer.h"
#include "services/tokenizer/pre_tokenizers/split_pre_tokenizer.h"
#include "services/tokenizer/text/byte_alphabet.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/mapped_text.h"

namespace sluice {
namespace {

using Steps = absl::Span<const std::unique_ptr<PreTokenizer>>;

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}

 private:
  absl::Status SplitText(const Piece& piece, RegexScratch& scratch, PieceSink sink) const override {
    return RunSteps(steps_, piece, scratch, sink);
  }

  static absl::Status RunSteps(Steps steps, const Piece& piece, RegexScratch& scratch,
                               PieceSink sink) {
    if (steps.empty()) return sink(piece);
    return steps[0]->Split(piece, scratch, [&](const Piece& part) {
      return RunSteps(steps.subspan(1), part, scratch, sink);
    });
  }

  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

absl::StatusOr<std::unique_ptr<PreTokenizer>> SequencePreTokenizerFromJson(const JsonPlace& place) {
  absl::StatusOr<JsonPlace> list = place.Array("pretokenizers");
  if (!list.ok()) return list.status();
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (size_t i = 0; i < list->value->size(); ++i) {
    absl::StatusOr<std::unique_ptr<PreTokenizer>> step = PreTokenizerFromJson(list->Element(i));
    if (!step.ok()) return step.status();
    if (*step == nullptr) return list->Element(i).Reject("a pre-tokenizer");
    steps.push_back(*std::move(step));
  }
  constexpr size_t kMaxSteps = 64;  // each is a few stack frames
  if (steps.size() > kMaxSteps) return list->Reject("at most 64 pre-tokenizers");
  return std::make_unique<SequencePreTokenizer>(std::move(steps));
}

}  // namespace

absl::Status SpellOut(const Piece& piece, PieceSink sink) {
  if (!piece.byte_level) return sink(piece);
  TextRewriter rewriter(piece.text, piece.map, piece.map_begin, piece.pace);
  for (size_t i = 0; i < piece.text.size(); ++i) {
    if (absl::Status status = piece.Pass(1); !status.ok()) return status;
    rewriter.Put(ByteToAlphabet(static_cast<uint8_t>(piece.text[i])), i, i + 1);
  }
  if (absl::Status status = piece.Pass(0); !status.ok()) return status;  // the map may be half
  return sink({.text = rewriter.text(),
               .map = rewriter.map(),
               .at_begin = piece.at_begin,
               .pace = piece.pace});
}

absl::Status PreTokenizer::Split(const Piece& piece, RegexScratch& scratch, PieceSink sink) const {
  if (piece.text.empty()) return absl::OkStatus();
  // What follows looks at characters.
  return SpellOut(piece, [&](const Piece& spelled) { return SplitText(spelled, scratch, sink); });
}

absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizerFromJson(const JsonPlace& place) {
  if (place.value->is_null()) return nullptr;
  const std::string type = place.Type();
  if (type == "Sequence") return SequencePreTokenizerFromJson(place);
  if (type == "Split") return SplitPreTokenizerFromJson(place);
  if (type == "ByteLevel") return ByteLevelPreTokenizerFromJson(place);
  if (type == "Metaspace") return MetaspacePreTokenizerFromJson(place);
  if (type == "Digits") return DigitsPreTokenizerFromJson(place);
  if (type == "Punctuation") return PunctuationPreTokenizerFromJson(place);
  if (type == "CharDelimiterSplit") return CharDelimiterPreTokenizerFromJson(place);
  if (type == "FixedLength") return FixedLengthPreTokenizerFromJson(place);
  if (type == "BertPreTokenizer") return MakeBertPreTokenizer();
  if (type == "Whitespace") return MakeWhitespacePreTokenizer();
  if (type == "WhitespaceSplit") return MakeWhitespaceSplitPreTokenizer();
  if (type == "UnicodeScripts") return MakeUnicodeScriptsPreTokenizer();
  return place.RejectType(
      "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, "
      "Punctuation, Sequence, Split, UnicodeScripts, Whitespace, WhitespaceSplit");
}

}  // namespace sluice
