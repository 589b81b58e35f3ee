#include "services/tokenizer/repaired_text.h"

#include <algorithm>

#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

// How many bytes at the beginning of `bytes`, which begin no whole character, are replaced at once:
// as many as could begin one.
size_t InvalidLength(std::string_view bytes) {
  size_t length = 1;
  while (length < bytes.size() &&
         ReadUtf8Prefix(bytes.substr(0, length + 1)) == Utf8Prefix::kUnfinished) {
    ++length;
  }
  return length;
}

}  // namespace

RepairedText::RepairedText(std::string_view original) {
  size_t at = 0;
  while (at < original.size()) {
    const size_t valid = std::min(FirstInvalidUtf8(original.substr(at)), original.size() - at);
    text_ += original.substr(at, valid);
    at += valid;
    if (at == original.size()) break;
    at += InvalidLength(original.substr(at));
    text_ += kReplacementCharacter;
    repairs_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(at)});
  }
}

void RepairedText::RestoreOffsets(std::vector<ByteRange>* offsets) const {
  for (ByteRange& range : *offsets) range = {Restore(range.begin), Restore(range.end)};
}

uint32_t RepairedText::Restore(uint32_t offset) const {
  const auto after =
      std::upper_bound(repairs_.begin(), repairs_.end(), offset,
                       [](uint32_t value, const Repair& repair) { return value < repair.end; });
  if (after == repairs_.begin()) return offset;
  return offset - (after - 1)->end + (after - 1)->original_end;
}

}  // namespace sluice
