// Text for messages. Debian's Abseil has a string_view of its own, which std::string_view does not
// convert to; these take both.
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {

inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

namespace internal {
template <typename T>
const T& StrCatArgument(const T& value) {
  return value;
}
inline absl::string_view StrCatArgument(std::string_view text) { return ToAbsl(text); }
}  // namespace internal

// absl::StrCat and absl::StrAppend.
template <typename... Args>
std::string StrCat(const Args&... args) {
  return absl::StrCat(internal::StrCatArgument(args)...);
}
template <typename... Args>
void StrAppend(std::string* out, const Args&... args) {
  absl::StrAppend(out, internal::StrCatArgument(args)...);
}

// In quotation marks, with what is not printable escaped.
inline std::string Quoted(std::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(ToAbsl(text)), "\"");
}

}  // namespace sluice
