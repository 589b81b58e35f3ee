#include "clients/cli/json.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"

namespace sluice {

Json JsonOf(float value) {
  if (!std::isfinite(value)) return nullptr;
  // As a double, 0.1f would print as 0.10000000149011612.
  char digits[64];
  const char* end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  double shortest = 0;
  std::from_chars(digits, end, shortest);
  return shortest;
}

Json JsonOf(const google::protobuf::RepeatedPtrField<v1::TokenLogprob>& top) {
  Json list = Json::array();
  for (const v1::TokenLogprob& token : top) {
    list.push_back({{"token_id", token.token_id()}, {"logprob", JsonOf(token.logprob())}});
  }
  return list;
}

std::string DumpLine(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string line;
  line.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // The library escapes what JSON asks for, the control characters of ASCII but the last.
    const bool has_next = byte == 0xC2 && i + 1 < text.size();
    const auto code = static_cast<unsigned char>(has_next ? text[i + 1] : text[i]);
    if (byte == 0x7F || (has_next && code < 0xA0)) {
      absl::StrAppendFormat(&line, "\\u%04x", code);
      i += has_next ? 1 : 0;
    } else {
      line += text[i];
    }
  }
  return line;
}

}  // namespace sluice
