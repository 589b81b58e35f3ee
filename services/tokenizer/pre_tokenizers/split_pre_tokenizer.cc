#include "services/tokenizer/pre_tokenizers/split_pre_tokenizer.h"

#include <string>
#include <utility>

#include "services/tokenizer/regex/regex_json.h"
#include "services/tokenizer/text/json_place.h"

namespace sluice {
namespace {

class SplitPreTokenizer : public PreTokenizer {
 public:
  SplitPreTokenizer(Regex regex, SplitOptions options)
      : regex_(std::move(regex)), options_(options) {}

 private:
  absl::Status SplitText(const Piece& piece, RegexScratch& scratch, PieceSink sink) const override {
    return SplitAtMatches(regex_, options_, piece, scratch, sink);
  }

  const Regex regex_;
  const SplitOptions options_;
};

}  // namespace

absl::Status SplitAtMatches(const Regex& regex, const SplitOptions& options, const Piece& piece,
                            RegexScratch& scratch, PieceSink sink) {
  DelimiterSplitter splitter(options.behavior, piece, sink);
  RegexMatches matches(regex, piece.text, scratch);
  ByteRange match;
  size_t last_end = 0;
  while (matches.Next(&match)) {
    if (absl::Status status = piece.Pass(1 + match.end - last_end); !status.ok()) return status;
    if (last_end != match.begin) {
      if (auto status = splitter.Add(last_end, match.begin, options.invert); !status.ok()) {
        return status;
      }
    }
    if (auto status = splitter.Add(match.begin, match.end, !options.invert); !status.ok()) {
      return status;
    }
    last_end = match.end;
  }
  if (!matches.status().ok()) return matches.status();
  if (last_end != piece.text.size()) {
    if (auto status = splitter.Add(last_end, piece.text.size(), options.invert); !status.ok()) {
      return status;
    }
  }
  return splitter.Finish();
}

absl::StatusOr<std::unique_ptr<PreTokenizer>> SplitPreTokenizerFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  const auto behavior = DelimiterBehaviorFromName(fields.String("behavior").value_or(""));
  if (!behavior.has_value()) {
    fields.Reject("behavior", std::string(kDelimiterBehaviorNames));
  }
  const std::optional<bool> invert = fields.Bool("invert");
  if (!invert.has_value()) fields.Reject("invert", "true or false");
  if (!fields.status().ok()) return fields.status();
  absl::StatusOr<Regex> regex = RegexFromJson(place.Member("pattern"));
  if (!regex.ok()) return regex.status();
  return std::make_unique<SplitPreTokenizer>(
      *std::move(regex), SplitOptions{.behavior = *behavior, .invert = *invert});
}

}  // namespace sluice
