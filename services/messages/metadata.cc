#include "services/messages/metadata.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

bool IsPrintable(char c) { return c >= 0x20 && c <= 0x7e; }

bool IsOfKey(char c) {
  return absl::ascii_islower(static_cast<uint8_t>(c)) ||
         absl::ascii_isdigit(static_cast<uint8_t>(c)) || c == '-' || c == '_' || c == '.';
}

}  // namespace

bool IsMetadataValue(absl::string_view value) {
  return std::all_of(value.begin(), value.end(), IsPrintable);
}

absl::Status AddMetadata(grpc::ClientContext& context, const std::string& key,
                         const std::string& value) {
  if (key.empty() || !std::all_of(key.begin(), key.end(), IsOfKey)) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", absl::CHexEscape(key),
                     "\" is no key; accepted: lower-case letters, digits, '-', '_' and '.'"));
  }
  if (!absl::EndsWith(key, "-bin") && !IsMetadataValue(value)) {
    const auto bad = std::find_if_not(value.begin(), value.end(), IsPrintable);
    return absl::InvalidArgumentError(absl::StrCat("metadata ", key, ": the byte at ",
                                                   bad - value.begin(),
                                                   " is not a printable ASCII character"));
  }
  context.AddMetadata(key, value);
  return absl::OkStatus();
}

}  // namespace sluice
