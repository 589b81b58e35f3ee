// Maps the bytes of a changed text to the original one. A text that is an unchanged part of the
// original needs no table. Immutable once built; the original must outlive it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "services/tokenizer/text/token.h"

namespace sluice {

class SourceMap {
 public:
  // Of a text that is `original` from byte `begin` on, unchanged.
  SourceMap(std::string_view original, size_t begin) : original_(original), begin_(begin) {}

  // Of a text still to be appended, made from one whose map this is.
  SourceMap Rewritten() const;

  // Says that the next `num_bytes` bytes of the new text come from `source` of the original.
  // REQUIRES: made by Rewritten().
  void Append(size_t num_bytes, ByteRange source) {
    bytes_.insert(bytes_.end(), num_bytes, source);
  }

  // Forgets all but the first `num_bytes` bytes of the new text. REQUIRES: made by Rewritten().
  void Truncate(size_t num_bytes) { bytes_.resize(num_bytes); }

  // The part of the original that bytes [begin, end) of the text come from, in whole characters.
  ByteRange Range(size_t begin, size_t end) const;

 private:
  std::string_view original_;
  size_t begin_;
  bool rewritten_ = false;
  std::vector<ByteRange> bytes_;  // one for each byte of a rewritten text
};

}  // namespace sluice
