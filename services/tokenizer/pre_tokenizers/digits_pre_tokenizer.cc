#include "services/tokenizer/pre_tokenizers/digits_pre_tokenizer.h"

#include <optional>

#include "services/tokenizer/char_class.h"
#include "services/tokenizer/pre_tokenizers/delimiters.h"
#include "services/tokenizer/json_place.h"
#include "services/tokenizer/utf8.h"

namespace sluice {
namespace {

class DigitsPreTokenizer : public PreTokenizer {
 public:
  explicit DigitsPreTokenizer(DelimiterBehavior behavior) : behavior_(behavior) {}

 private:
  absl::Status SplitText(const Piece& piece, RegexScratch&, PieceSink sink) const override {
    DelimiterSplitter splitter(behavior_, piece, sink);
    size_t others_begin = 0;
    for (size_t at = 0; at < piece.text.size();) {
      const Utf8Char c = ReadUtf8(piece.text, at);
      const size_t end = at + c.length;
      if (IsNumeric(c.code_point)) {
        if (others_begin < at) {
          if (auto status = splitter.Add(others_begin, at, false); !status.ok()) return status;
        }
        if (auto status = splitter.Add(at, end, true); !status.ok()) return status;
        others_begin = end;
      }
      at = end;
    }
    if (others_begin < piece.text.size()) {
      auto status = splitter.Add(others_begin, piece.text.size(), false);
      if (!status.ok()) return status;
    }
    return splitter.Finish();
  }

  const DelimiterBehavior behavior_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreTokenizer>> DigitsPreTokenizerFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  const std::optional<bool> individual_digits = fields.Bool("individual_digits");
  if (!individual_digits.has_value()) fields.Reject("individual_digits", "true or false");
  if (!fields.status().ok()) return fields.status();
  return std::make_unique<DigitsPreTokenizer>(*individual_digits ? DelimiterBehavior::kIsolated
                                                                 : DelimiterBehavior::kContiguous);
}

}  // namespace sluice
