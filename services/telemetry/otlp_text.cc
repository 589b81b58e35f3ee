#include "services/telemetry/otlp_text.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/common/address.h"

namespace sluice {
namespace {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

constexpr char kDefaultPort[] = "4317";

absl::Status Wrong(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text,
                   "\" is no endpoint of OTLP over gRPC; accepted: HOST:PORT, unix:/PATH, "
                   "http://HOST:PORT, https://HOST:PORT"));
}

// "[::1]" ends with a bracket: its colons are no port's.
bool HasPort(absl::string_view authority) {
  const size_t colon = authority.rfind(':');
  const size_t bracket = authority.rfind(']');
  return colon != absl::string_view::npos &&
         (bracket == absl::string_view::npos || colon > bracket);
}

// Nothing where a percent sign is not followed by two digits.
std::optional<std::string> PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    int byte = 0;
    const absl::string_view digits = text.substr(i + 1, 2);
    const bool hex = digits.size() == 2 &&
                     absl::ascii_isxdigit(static_cast<unsigned char>(digits[0])) &&
                     absl::ascii_isxdigit(static_cast<unsigned char>(digits[1]));
    if (!hex || !absl::SimpleHexAtoi(digits, &byte)) return std::nullopt;
    decoded.push_back(static_cast<char>(byte));
    i += 2;
  }
  return decoded;
}

void Set(std::string key, std::string value, KeyValues& into) {
  const auto found = std::find_if(into.begin(), into.end(),
                                  [&key](const auto& entry) { return entry.first == key; });
  if (found != into.end()) {
    found->second = std::move(value);
  } else {
    into.emplace_back(std::move(key), std::move(value));
  }
}

}  // namespace

absl::StatusOr<OtlpEndpoint> ParseOtlpEndpoint(absl::string_view text) {
  OtlpEndpoint endpoint;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "http://")) {
    endpoint.transport = OtlpEndpoint::Transport::kPlaintext;
  } else if (absl::ConsumePrefix(&rest, "https://")) {
    endpoint.transport = OtlpEndpoint::Transport::kTls;
  } else if (absl::StrContains(rest, "://")) {
    return Wrong(text);
  }
  if (endpoint.transport != OtlpEndpoint::Transport::kByAddress) {
    absl::ConsumeSuffix(&rest, "/");
    if (rest.empty() || absl::StrContains(rest, '/')) return Wrong(text);
  }
  endpoint.address = std::string(rest);
  if (endpoint.transport != OtlpEndpoint::Transport::kByAddress && !HasPort(rest)) {
    absl::StrAppend(&endpoint.address, ":", kDefaultPort);
  }
  if (absl::StartsWith(rest, "inproc:") || !CheckAddress(endpoint.address).ok()) return Wrong(text);
  return endpoint;
}

absl::StatusOr<KeyValues> ParseKeyValues(absl::string_view text) {
  KeyValues values;
  for (absl::string_view entry : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    entry = absl::StripAsciiWhitespace(entry);
    const size_t equals = entry.find('=');
    const absl::string_view key = absl::StripAsciiWhitespace(entry.substr(0, equals));
    std::optional<std::string> value;
    if (equals != absl::string_view::npos) {
      value = PercentDecoded(absl::StripAsciiWhitespace(entry.substr(equals + 1)));
    }
    if (key.empty() || !value.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", entry, "\" is no KEY=VALUE with the value percent-encoded"));
    }
    Set(std::string(key), *std::move(value), values);
  }
  return values;
}

}  // namespace sluice
