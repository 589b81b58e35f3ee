#include "services/tokenizer/pre_tokenizers/metaspace_pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/mapped_text.h"
#include "services/tokenizer/text/metaspace.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(MetaspaceOptions options) : options_(std::move(options)) {}

 private:
  absl::Status SplitText(const Piece& piece, RegexScratch&, PieceSink sink) const override {
    TextRewriter rewriter(piece.text, piece.map, piece.map_begin, piece.pace);
    if (Prepends(piece)) rewriter.Put(options_.replacement, 0, ReadUtf8(piece.text, 0).length);
    size_t kept = 0;
    for (size_t space; (space = piece.text.find(' ', kept)) != piece.text.npos; kept = space + 1) {
      if (absl::Status status = piece.Pass(1 + space - kept); !status.ok()) return status;
      rewriter.Keep(kept, space);
      rewriter.Put(options_.replacement, space, space + 1);
    }
    rewriter.Keep(kept, piece.text.size());
    if (absl::Status status = piece.Pass(0); !status.ok()) return status;
    const Piece replaced{.text = rewriter.text(),
                         .map = rewriter.map(),
                         .at_begin = piece.at_begin,
                         .pace = piece.pace};
    return options_.split ? SplitReplaced(replaced, sink) : sink(replaced);
  }

  bool Prepends(const Piece& piece) const {
    if (options_.prepend == MetaspaceOptions::Prepend::kNever) return false;
    if (options_.prepend == MetaspaceOptions::Prepend::kFirst && !piece.at_begin) return false;
    return piece.text.front() != ' ' && !piece.text.starts_with(options_.replacement);
  }

  // Each replacement begins a piece.
  absl::Status SplitReplaced(const Piece& piece, PieceSink sink) const {
    size_t begin = 0;
    while (begin < piece.text.size()) {
      const size_t end =
          std::min(piece.text.find(options_.replacement, begin + 1), piece.text.size());
      if (auto status = sink(piece.Part(begin, end)); !status.ok()) return status;
      begin = end;
    }
    return absl::OkStatus();
  }

  const MetaspaceOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreTokenizer>> MetaspacePreTokenizerFromJson(
    const JsonPlace& place) {
  absl::StatusOr<MetaspaceOptions> options = MetaspaceFromJson(place);
  if (!options.ok()) return options.status();
  return std::make_unique<MetaspacePreTokenizer>(*std::move(options));
}

}  // namespace sluice
