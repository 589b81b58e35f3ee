#include "services/tokenizer/text/source_map.h"

#include <algorithm>

#include "services/tokenizer/text/utf8.h"

namespace sluice {

SourceMap SourceMap::Rewritten() const {
  SourceMap map(original_, begin_);
  map.rewritten_ = true;
  return map;
}

ByteRange SourceMap::Range(size_t begin, size_t end) const {
  if (rewritten_) {
    if (begin >= end) return {};
    const ByteRange first = bytes_[begin];
    return {first.begin, std::max(first.end, bytes_[end - 1].end)};
  }
  begin += begin_;
  end += begin_;
  if (begin >= end) return {static_cast<uint32_t>(begin), static_cast<uint32_t>(begin)};
  while (begin > 0 && IsUtf8Continuation(original_[begin])) --begin;
  while (end < original_.size() && IsUtf8Continuation(original_[end])) ++end;
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

}  // namespace sluice
