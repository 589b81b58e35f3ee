#include "services/gateway/http/message.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace sluice::http {

std::optional<absl::string_view> Request::Header(absl::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return std::nullopt;
}

size_t Request::Count(absl::string_view name) const {
  return static_cast<size_t>(std::count_if(headers.begin(), headers.end(),
                                           [&](const auto& h) { return h.first == name; }));
}

std::string Request::Joined(absl::string_view name) const {
  std::string list;
  for (const auto& [key, value] : headers) {
    if (key != name) continue;
    if (!list.empty()) list += ',';
    list += value;
  }
  return list;
}

std::string HostOf(absl::string_view authority) {
  const size_t bracket = authority.rfind(']');
  const size_t from = bracket == absl::string_view::npos ? 0 : bracket;
  return absl::AsciiStrToLower(authority.substr(0, authority.find(':', from)));
}

std::optional<std::string> PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      uint32_t byte = 0;
      if (i + 2 >= text.size() || !absl::ascii_isxdigit(static_cast<uint8_t>(text[i + 1])) ||
          !absl::ascii_isxdigit(static_cast<uint8_t>(text[i + 2])) ||
          !absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte)) {
        return std::nullopt;
      }
      c = static_cast<char>(byte);
      i += 2;
    }
    if (absl::ascii_iscntrl(static_cast<uint8_t>(c))) return std::nullopt;
    decoded += c;
  }
  return decoded;
}

absl::string_view ReasonPhrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

}  // namespace sluice::http
