#include "services/tokenizer/text/utf8.h"

#include <algorithm>
#include <cstring>

namespace sluice {
namespace {

// What a first byte promises: the length of its character (0: it begins none) and the bounds of the
// second byte, which rule out overlong forms, surrogates and what lies above U+10FFFF.
struct Lead {
  uint32_t length;
  uint8_t min;
  uint8_t max;
};

Lead ReadLead(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Length of the run of ASCII at the start, a multiple of 8 or the whole text.
size_t AsciiPrefix(std::string_view text) {
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080u) != 0) return at;
  }
  return at;
}

bool IsWholeChar(std::string_view text, size_t at, const Lead& lead) {
  if (lead.length == 0 || at + lead.length > text.size()) return false;
  if (lead.length == 1) return true;
  const auto second = static_cast<uint8_t>(text[at + 1]);
  if (second < lead.min || second > lead.max) return false;
  for (size_t i = 2; i < lead.length; ++i) {
    if (!IsUtf8Continuation(text[at + i])) return false;
  }
  return true;
}

}  // namespace

size_t FirstInvalidUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      const size_t skip = AsciiPrefix(text.substr(at));
      at += skip > 0 ? skip : 1;
      continue;
    }
    const Lead lead = ReadLead(static_cast<uint8_t>(text[at]));
    if (!IsWholeChar(text, at, lead)) return at;
    at += lead.length;
  }
  return std::string_view::npos;
}

Utf8Prefix ReadUtf8Prefix(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Lead lead = ReadLead(static_cast<uint8_t>(text[at]));
    if (lead.length == 0) return Utf8Prefix::kInvalid;
    const size_t end = std::min(text.size(), at + lead.length);
    for (size_t i = at + 1; i < end; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      const bool fits =
          i == at + 1 ? byte >= lead.min && byte <= lead.max : IsUtf8Continuation(text[i]);
      if (!fits) return Utf8Prefix::kInvalid;
    }
    if (at + lead.length > text.size()) return Utf8Prefix::kUnfinished;
    at = end;
  }
  return Utf8Prefix::kWhole;
}

Utf8Char ReadUtf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const auto low = [&](size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {static_cast<char32_t>(lead & 0x1F) << 6 | low(1), 2};
  if (lead < 0xF0) return {static_cast<char32_t>(lead & 0x0F) << 12 | low(1) << 6 | low(2), 3};
  return {static_cast<char32_t>(lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3), 4};
}

Utf8Char ReadUtf8Before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (IsUtf8Continuation(text[begin])) --begin;
  return ReadUtf8(text, begin);
}

void AppendUtf8(char32_t c, std::string* out) {
  const auto last6 = [](char32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    const char bytes[] = {static_cast<char>(0xC0 | c >> 6), last6(c)};
    out->append(bytes, sizeof(bytes));
  } else if (c < 0x10000) {
    const char bytes[] = {static_cast<char>(0xE0 | c >> 12), last6(c >> 6), last6(c)};
    out->append(bytes, sizeof(bytes));
  } else {
    const char bytes[] = {static_cast<char>(0xF0 | c >> 18), last6(c >> 12), last6(c >> 6),
                          last6(c)};
    out->append(bytes, sizeof(bytes));
  }
}

void LossyUtf8::Append(std::string_view bytes, std::string* out) {
  size_t at = 0;
  while (at < bytes.size()) {
    const auto byte = static_cast<uint8_t>(bytes[at]);
    if (pending_size_ == 0) {
      Begin(byte, out);
      ++at;
      continue;
    }
    if (byte < next_min_ || byte > next_max_) {
      out->append(kReplacementCharacter);
      pending_size_ = 0;
      continue;  // the byte may begin a character of its own
    }
    pending_[pending_size_++] = bytes[at++];
    next_min_ = 0x80;
    next_max_ = 0xBF;
    if (pending_size_ == pending_length_) {
      out->append(pending_, pending_size_);
      pending_size_ = 0;
    }
  }
}

void LossyUtf8::Begin(uint8_t byte, std::string* out) {
  const Lead lead = ReadLead(byte);
  if (lead.length == 1) {
    out->push_back(static_cast<char>(byte));
  } else if (lead.length == 0) {
    out->append(kReplacementCharacter);
  } else {
    pending_[0] = static_cast<char>(byte);
    pending_size_ = 1;
    pending_length_ = lead.length;
    next_min_ = lead.min;
    next_max_ = lead.max;
  }
}

void LossyUtf8::Finish(std::string* out) {
  if (pending_size_ > 0) out->append(kReplacementCharacter);
  pending_size_ = 0;
}

}  // namespace sluice
