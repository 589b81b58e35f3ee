// Texts for messages out of parts. (Debian's Abseil has a string_view of its own, which
// std::string_view does not convert to; this takes both.)
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace internal {
template <typename T>
const T& MessagePart(const T& part) {
  return part;
}
inline absl::string_view MessagePart(std::string_view part) { return {part.data(), part.size()}; }
}  // namespace internal

// The parts, numbers as decimals, one behind the other.
template <typename... Parts>
std::string Message(const Parts&... parts) {
  return absl::StrCat(internal::MessagePart(parts)...);
}

}  // namespace sluice
