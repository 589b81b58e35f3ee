#include "clients/cli/text_input.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "services/options/flags.h"

namespace sluice {
namespace {

// The second byte's range and the length of a character that starts with a given byte (Unicode
// standard, table 3-7). Length 0: no character starts so.
struct Utf8Form {
  size_t length;
  unsigned char second_min, second_max;
};

Utf8Form FormOf(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Bytes of the character at the front of `text`; 0 where there is none.
size_t CharacterLength(absl::string_view text) {
  const Utf8Form form = FormOf(static_cast<unsigned char>(text[0]));
  if (form.length > text.size()) return 0;
  for (size_t i = 1; i < form.length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char least = i == 1 ? form.second_min : 0x80;
    const unsigned char most = i == 1 ? form.second_max : 0xBF;
    if (byte < least || byte > most) return 0;
  }
  return form.length;
}

}  // namespace

std::optional<size_t> FirstInvalidUtf8(absl::string_view text) {
  for (size_t offset = 0; offset < text.size();) {
    const size_t length = CharacterLength(text.substr(offset));
    if (length == 0) return offset;
    offset += length;
  }
  return std::nullopt;
}

absl::Status CheckUtf8(absl::string_view text) {
  const std::optional<size_t> offset = FirstInvalidUtf8(text);
  if (!offset.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("not UTF-8: byte 0x%02X at offset %d begins no character",
                      static_cast<unsigned char>(text[*offset]), *offset));
}

absl::StatusOr<std::vector<int32_t>> ParseTokenIds(const std::string& text) {
  std::vector<int32_t> ids;
  if (text.empty()) return ids;
  for (const std::string& item : std::vector<std::string>(absl::StrSplit(text, ','))) {
    ids.emplace_back();
    const absl::Status status = ParseFlagValue(item, &ids.back());
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("item ", ids.size(), ": ", status.message()));
    }
  }
  return ids;
}

}  // namespace sluice
