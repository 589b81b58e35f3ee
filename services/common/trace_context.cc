#include "services/common/trace_context.h"

#include <algorithm>
#include <array>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

// "00-" trace "-" span "-" flags
constexpr size_t kVersionDigits = 2;
constexpr size_t kTraceDigits = 32;
constexpr size_t kSpanDigits = 16;
constexpr size_t kFlagDigits = 2;
constexpr size_t kLength = kVersionDigits + 1 + kTraceDigits + 1 + kSpanDigits + 1 + kFlagDigits;

bool IsHex(absl::string_view text) {
  for (const char c : text) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c)) ||
        absl::ascii_isupper(static_cast<unsigned char>(c))) {
      return false;
    }
  }
  return true;
}

bool IsId(absl::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != absl::string_view::npos;
}

// Takes so many characters, and the dash behind them where there is one.
absl::string_view Take(absl::string_view& text, size_t size) {
  const absl::string_view taken = text.substr(0, size);
  text.remove_prefix(std::min(text.size(), size + 1));
  return taken;
}

// Ids are drawn by many processes and threads: their generators must not begin alike.
std::mt19937_64 SeededGenerator() {
  std::random_device device;
  std::array<uint32_t, 8> words;
  for (uint32_t& word : words) word = device();
  std::seed_seq seed(words.begin(), words.end());
  return std::mt19937_64(seed);
}

// Not 0, of 16 digits.
std::string RandomDigits() {
  static thread_local std::mt19937_64 random = SeededGenerator();
  uint64_t id = 0;
  while (id == 0) id = random();
  return absl::StrCat(absl::Hex(id, absl::kZeroPad16));
}

}  // namespace

std::string TraceContext::ToTraceParent() const {
  return absl::StrFormat("00-%s-%s-%02x", trace_id, span_id, flags);
}

TraceContext TraceContext::Child() const { return {trace_id, RandomDigits(), flags}; }

TraceContext TraceContext::NewTrace() {
  return {absl::StrCat(RandomDigits(), RandomDigits()), RandomDigits(), 0};
}

std::optional<TraceContext> ParseTraceParent(absl::string_view text) {
  if (text.size() < kLength || text[kVersionDigits] != '-' ||
      text[kVersionDigits + 1 + kTraceDigits] != '-' || text[kLength - kFlagDigits - 1] != '-') {
    return std::nullopt;
  }
  // More may follow in later versions, behind another dash.
  if (text.size() > kLength && (text.substr(0, kVersionDigits) == "00" || text[kLength] != '-')) {
    return std::nullopt;
  }
  const absl::string_view version = Take(text, kVersionDigits);
  const absl::string_view trace_id = Take(text, kTraceDigits);
  const absl::string_view span_id = Take(text, kSpanDigits);
  const absl::string_view flags = Take(text, kFlagDigits);
  uint32_t bits = 0;
  if (!IsHex(version) || version == "ff" || !IsId(trace_id) || !IsId(span_id) || !IsHex(flags) ||
      !absl::SimpleHexAtoi(flags, &bits)) {
    return std::nullopt;
  }
  return TraceContext{std::string(trace_id), std::string(span_id), static_cast<uint8_t>(bits)};
}

}  // namespace sluice
