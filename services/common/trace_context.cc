#include "services/common/trace_context.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

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

constexpr size_t kMostMembers = 32;
constexpr size_t kMostKeyBytes = 256;
constexpr size_t kMostValueBytes = 256;

bool IsStateKey(absl::string_view key) {
  if (key.empty() || key.size() > kMostKeyBytes) return false;
  const auto is_first = [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); };
  return is_first(key[0]) && std::all_of(key.begin(), key.end(), [&](char c) {
           return is_first(c) || absl::string_view("_-*/@").find(c) != absl::string_view::npos;
         });
}

// Printable ASCII but for what separates members; blanks within alone.
bool IsStateValue(absl::string_view value) {
  return !value.empty() && value.size() <= kMostValueBytes && value.back() != ' ' &&
         std::all_of(value.begin(), value.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

// The members, without the blanks around them and the empty ones between; nothing where one is wrong.
std::string CleanTraceState(absl::string_view text) {
  std::vector<absl::string_view> members;
  std::vector<absl::string_view> keys;
  for (absl::string_view member : absl::StrSplit(text, ',')) {
    member = absl::StripAsciiWhitespace(member);
    if (member.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(member, absl::MaxSplits('=', 1));
    if (!IsStateKey(parts.first) || !IsStateValue(parts.second)) return "";
    const bool again = std::find(keys.begin(), keys.end(), parts.first) != keys.end();
    if (again || members.size() == kMostMembers) return "";
    keys.push_back(parts.first);
    members.push_back(member);
  }
  return absl::StrJoin(members, ",");
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

TraceContext TraceContext::Child() const { return {trace_id, RandomDigits(), flags, state}; }

TraceContext TraceContext::NewTrace() {
  return {absl::StrCat(RandomDigits(), RandomDigits()), RandomDigits(), 0, ""};
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
  return TraceContext{std::string(trace_id), std::string(span_id), static_cast<uint8_t>(bits), ""};
}

std::optional<TraceContext> ParseTraceContext(absl::string_view trace_parent,
                                              absl::string_view trace_state) {
  std::optional<TraceContext> context = ParseTraceParent(trace_parent);
  if (context.has_value()) context->state = CleanTraceState(trace_state);
  return context;
}

}  // namespace sluice
