#include "services/gateway/batches/multipart.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sluice::gateway {
namespace {

constexpr size_t kMostParts = 32;
constexpr size_t kLongestBoundary = 70;  // RFC 2046, 5.1.1
constexpr char kHeadersEnd[] = "\r\n\r\n";

absl::Status Broken(absl::string_view how) {
  return absl::InvalidArgumentError(absl::StrCat("the body is no multipart/form-data: ", how));
}

// The value of a parameter of a header, such as name="file"; quoted or not.
std::optional<std::string> ParameterOf(absl::string_view header, absl::string_view name) {
  size_t at = header.find(';');
  while (at != absl::string_view::npos) {
    absl::string_view rest = absl::StripLeadingAsciiWhitespace(header.substr(at + 1));
    const size_t equals = rest.find('=');
    if (equals == absl::string_view::npos) return std::nullopt;
    const bool found = absl::EqualsIgnoreCase(rest.substr(0, equals), name);
    rest.remove_prefix(equals + 1);
    std::string value;
    if (absl::ConsumePrefix(&rest, "\"")) {
      while (!rest.empty() && rest.front() != '"') {
        if (rest.front() == '\\' && rest.size() > 1) rest.remove_prefix(1);
        value.push_back(rest.front());
        rest.remove_prefix(1);
      }
    } else {
      value = std::string(rest.substr(0, rest.find(';')));
      absl::StripTrailingAsciiWhitespace(&value);
    }
    if (found) return value;
    const size_t next = rest.find(';');
    at = next == absl::string_view::npos ? next
                                         : static_cast<size_t>(rest.data() - header.data()) + next;
  }
  return std::nullopt;
}

// Of "headers CRLF CRLF content".
absl::StatusOr<FormPart> ReadPart(absl::string_view part) {
  const size_t end = part.find(kHeadersEnd);
  if (end == absl::string_view::npos) return Broken("a part has no end of headers");
  FormPart read;
  for (const absl::string_view line : absl::StrSplit(part.substr(0, end), "\r\n")) {
    const std::pair<absl::string_view, absl::string_view> header =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (!absl::EqualsIgnoreCase(header.first, "content-disposition")) continue;
    read.name = ParameterOf(header.second, "name").value_or("");
    read.filename = ParameterOf(header.second, "filename").value_or("");
  }
  if (read.name.empty()) return Broken("a part has no name");
  read.content = part.substr(end + sizeof(kHeadersEnd) - 1);
  return read;
}

}  // namespace

absl::StatusOr<std::vector<FormPart>> ReadForm(absl::string_view content_type,
                                               absl::string_view body) {
  const std::string boundary = ParameterOf(content_type, "boundary").value_or("");
  if (!absl::StartsWithIgnoreCase(content_type, "multipart/form-data") || boundary.empty() ||
      boundary.size() > kLongestBoundary) {
    return absl::InvalidArgumentError(
        "a file is sent as multipart/form-data, with its boundary in the header content-type");
  }
  const std::string first = absl::StrCat("--", boundary);
  const std::string between = absl::StrCat("\r\n--", boundary);
  const size_t begin = body.find(first);
  if (begin == absl::string_view::npos) return Broken("its boundary is not there");
  absl::string_view rest = body.substr(begin + first.size());
  std::vector<FormPart> parts;
  while (!absl::StartsWith(rest, "--")) {
    if (parts.size() == kMostParts) return Broken("it has too many parts");
    // Blanks may follow a boundary.
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(0, rest.find('\n') + 1)).empty()
               ? rest.substr(rest.find('\n') + 1)
               : rest;
    const size_t end = rest.find(between);
    if (end == absl::string_view::npos) return Broken("it breaks off");
    absl::StatusOr<FormPart> part = ReadPart(rest.substr(0, end));
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
    rest.remove_prefix(end + between.size());
  }
  return parts;
}

}  // namespace sluice::gateway
