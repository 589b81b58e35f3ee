#include "services/gateway/tool_calls/named_call.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace sluice::gateway {
namespace {

using Verdict = NamedCallHead::Verdict;

constexpr absl::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

absl::string_view TakeName(absl::string_view& text) {
  const size_t size = std::min(text.find_first_not_of(kNameCharacters), text.size());
  const absl::string_view name = text.substr(0, size);
  text.remove_prefix(size);
  return name;
}

// Takes the mark where the text begins with it. Whether it may still become one.
bool MayTake(absl::string_view mark, absl::string_view& text, bool* was_taken) {
  *was_taken = absl::ConsumePrefix(&text, mark);
  return !*was_taken && absl::StartsWith(mark, text);
}

}  // namespace

NamedCallHead NamedCallAt(absl::string_view text) {
  const NamedCallHead maybe = {.verdict = Verdict::kMaybe};
  absl::string_view rest = absl::StripLeadingAsciiWhitespace(text);
  bool was_taken = false;
  if (MayTake("[TOOL_CALLS]", rest, &was_taken)) return maybe;
  if (was_taken) rest = absl::StripLeadingAsciiWhitespace(rest);
  const absl::string_view name = TakeName(rest);
  if (rest.empty()) return maybe;
  if (name.empty()) return {};
  if (MayTake("[CALL_ID]", rest, &was_taken)) return maybe;
  if (was_taken) TakeName(rest);
  if (MayTake("[ARGS]", rest, &was_taken)) return maybe;
  if (was_taken) rest = absl::StripLeadingAsciiWhitespace(rest);
  if (rest.empty()) return maybe;
  if (rest.front() != '{') return {};
  return {.verdict = Verdict::kCall, .name = std::string(name), .size = text.size() - rest.size()};
}

}  // namespace sluice::gateway
