#include "clients/cli/terminal_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

bool IsControl(unsigned char byte) {
  return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (IsControl(byte)) {
      absl::StrAppendFormat(&result, "\\x%02x", byte);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      absl::StrAppendFormat(&result, "\\x%02x", next);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace sluice
