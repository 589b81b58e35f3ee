#include "clients/hub/hub_model.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

constexpr size_t kLongestPart = 96;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

bool IsPart(absl::string_view part) {
  return !part.empty() && part.size() <= kLongestPart && part[0] != '.' && part[0] != '-' &&
         part.find("..") == absl::string_view::npos &&
         std::all_of(part.begin(), part.end(), IsNameCharacter);
}

bool IsRevision(absl::string_view revision) {
  const std::vector<absl::string_view> parts = absl::StrSplit(revision, '/');
  return std::all_of(parts.begin(), parts.end(), IsPart);
}

}  // namespace

bool IsHubName(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  return parts.size() == 2 && IsPart(parts[0]) && IsPart(parts[1]);
}

absl::StatusOr<HubModel> ParseHubModel(absl::string_view name, absl::string_view revision) {
  if (!IsHubName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", name, "\" is no name of a model in a hub; accepted: such as Qwen/Qwen3-0.6B"));
  }
  if (!revision.empty() && !IsRevision(revision)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", revision, "\" is no revision; accepted: a branch, a tag or a commit"));
  }
  return HubModel{.name = std::string(name),
                  .revision = revision == "main" ? "" : std::string(revision)};
}

absl::StatusOr<HubModel> ParseHubModel(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('@', 1));
  return ParseHubModel(parts.first, parts.second);
}

std::string PercentEncoded(absl::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (IsNameCharacter(c) || c == '~') {
      encoded += c;
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace sluice
