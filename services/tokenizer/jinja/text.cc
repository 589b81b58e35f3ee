#include "services/tokenizer/jinja/text.h"

#include <algorithm>
#include <utility>

namespace sluice::jinja {

Text::Text(std::string bytes, bool is_untrusted) : bytes_(std::move(bytes)) {
  if (is_untrusted) MarkUntrusted(0, bytes_.size());
}

std::vector<TextRange>::const_iterator Text::FirstEndingAfter(size_t byte) const {
  return std::upper_bound(untrusted_.begin(), untrusted_.end(), byte,
                          [](size_t at, const TextRange& range) { return at < range.end; });
}

bool Text::IsUntrustedAt(size_t byte) const {
  const auto range = FirstEndingAfter(byte);
  return range != untrusted_.end() && range->begin <= byte;
}

void Text::MarkUntrusted(size_t begin, size_t end) {
  if (begin == end) return;
  if (!untrusted_.empty() && untrusted_.back().end == begin) {
    untrusted_.back().end = end;
  } else {
    untrusted_.push_back({begin, end});
  }
}

void Text::Append(std::string_view bytes, bool is_untrusted) {
  const size_t begin = bytes_.size();
  bytes_.append(bytes);
  if (is_untrusted) MarkUntrusted(begin, bytes_.size());
}

void Text::AppendPart(const Text& text, size_t begin, size_t end) {
  const size_t at = bytes_.size();
  bytes_.append(text.bytes_, begin, end - begin);
  for (auto range = text.FirstEndingAfter(begin);
       range != text.untrusted_.end() && range->begin < end; ++range) {
    MarkUntrusted(at + std::max(range->begin, begin) - begin,
                  at + std::min(range->end, end) - begin);
  }
}

Text Text::Part(size_t begin, size_t end) const {
  Text part;
  part.AppendPart(*this, begin, end);
  return part;
}

}  // namespace sluice::jinja
