// Pre-tokenizers: they split a text into pieces that no token reaches across. Pieces are pushed on
// as they are found, so that a sequence of pre-tokenizers needs no memory for its intermediate
// results. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/tokenizer/regex/regex.h"
#include "services/tokenizer/text/pace.h"
#include "services/tokenizer/text/source_map.h"

namespace sluice {

struct JsonPlace;

// A part of a text. Valid during the call that receives it.
struct Piece {
  std::string_view text;
  // Where offsets are wanted, the map of the text this is a part of, and where in it the part
  // begins.
  const SourceMap* map = nullptr;
  size_t map_begin = 0;
  // The piece is spelled in the byte-level alphabet (byte_alphabet.h), one character for each byte
  // of `text`. The spelling is made up only for those who look at it.
  bool byte_level = false;
  // The piece begins where the original text does.
  bool at_begin = false;
  // Of who splits it; borrowed, null for none.
  Pace* pace = nullptr;

  Piece Part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin), map, map_begin + begin, byte_level,
            at_begin && begin == 0,          pace};
  }
  // OK, or CANCELLED where the pace stops: so many bytes have been worked on.
  absl::Status Pass(size_t work) const {
    return Passes(pace, work) ? absl::OkStatus() : pace->status();
  }
  ByteRange Source(size_t begin, size_t end) const {
    return map->Range(map_begin + begin, map_begin + end);
  }
};

// Receives pieces in order, none of them empty.
using PieceSink = absl::FunctionRef<absl::Status(const Piece&)>;

// Hands `piece` to `sink` with its spelling written out, so that byte_level is false.
absl::Status SpellOut(const Piece& piece, PieceSink sink);

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  // Splits `piece` and hands the parts to `sink`, whose errors it returns.
  absl::Status Split(const Piece& piece, RegexScratch& scratch, PieceSink sink) const;

 private:
  // REQUIRES: !piece.byte_level and the piece is not empty.
  virtual absl::Status SplitText(const Piece& piece, RegexScratch& scratch,
                                 PieceSink sink) const = 0;
};

// A pre-tokenizer as tokenizer.json describes it; nullptr for null. INVALID_ARGUMENT or
// UNIMPLEMENTED naming file, path and value.
absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizerFromJson(const JsonPlace& place);

}  // namespace sluice
