// Finds tags in a text that has not come as a whole.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace sluice::gateway {

// Whether `text` may become `tag` when more comes. True for an empty text.
inline bool IsProperPrefix(absl::string_view text, absl::string_view tag) {
  return text.size() < tag.size() && absl::StartsWith(tag, text);
}

// How many bytes at the end of `text` may be the beginning of one of the tags. Empty tags are
// ignored.
template <class Tags = std::initializer_list<absl::string_view>>
size_t HeldBack(absl::string_view text, const Tags& tags) {
  size_t held = 0;
  for (const absl::string_view tag : tags) {
    if (tag.empty()) continue;
    for (size_t n = std::min(text.size(), tag.size() - 1); n > held; --n) {
      if (absl::StartsWith(tag, text.substr(text.size() - n))) held = n;
    }
  }
  return held;
}

// The first of the tags in `text`, and where it is; npos and an empty tag where there is none.
template <class Tags = std::initializer_list<absl::string_view>>
std::pair<size_t, absl::string_view> FindFirst(absl::string_view text, const Tags& tags) {
  std::pair<size_t, absl::string_view> first = {absl::string_view::npos, ""};
  for (const absl::string_view tag : tags) {
    if (tag.empty()) continue;
    const size_t found = text.find(tag);
    if (found < first.first) first = {found, tag};
  }
  return first;
}

inline size_t LeadingSpace(absl::string_view text) {
  return text.size() - absl::StripLeadingAsciiWhitespace(text).size();
}

}  // namespace sluice::gateway
