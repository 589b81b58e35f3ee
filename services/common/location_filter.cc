#include "services/common/location_filter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr absl::string_view kPlaceholder = "[location]";
constexpr absl::string_view kSchemes[] = {
    "unix:", "unix-abstract:", "ipv4:", "ipv6:", "dns:", "inproc:", "fd:"};

bool IsWordByte(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool IsHostByte(char c) { return IsWordByte(c) || c == '.' || c == '-'; }
bool IsPathByte(char c) {
  return IsHostByte(c) || c == '/' || c == '~' || c == '+' || c == '@' || c == '%' || c == '=';
}
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

template <class Predicate>
size_t RunOf(absl::string_view text, size_t begin, Predicate predicate) {
  size_t end = begin;
  while (end < text.size() && predicate(text[end])) ++end;
  return end - begin;
}

// Whether a location may begin here: after a blank, a bracket or a quote, for example.
bool IsBoundary(absl::string_view text, size_t begin) {
  return begin == 0 ||
         (!IsHostByte(text[begin - 1]) && text[begin - 1] != '/' && text[begin - 1] != '\\');
}

size_t WithoutPunctuation(absl::string_view location) {
  size_t size = location.size();
  while (size > 0 && absl::StrContains(":.,;", absl::string_view(&location[size - 1], 1))) --size;
  return size;
}

size_t SchemeAt(absl::string_view text) {
  for (const absl::string_view scheme : kSchemes) {
    if (!absl::StartsWith(text, scheme)) continue;
    const size_t size = text.find_first_of(" \t\n\"'()<>,;");
    const size_t whole = WithoutPunctuation(text.substr(0, size));
    return whole > scheme.size() ? whole : 0;  // "unix: " is a word
  }
  return 0;
}

// "/tmp/x", not "/" or a fraction.
size_t PathAt(absl::string_view text) {
  if (text[0] != '/' || text.size() < 2 || !(IsHostByte(text[1]) || text[1] == '/')) return 0;
  return WithoutPunctuation(text.substr(0, RunOf(text, 0, IsPathByte)));
}

// "host:1234", "10.0.0.1" with or without a port, and either after "host/", which is how orchestrators
// name themselves.
size_t HostAt(absl::string_view text) {
  const size_t host = RunOf(text, 0, IsHostByte);
  if (host == 0) return 0;
  if (host + 1 < text.size() && text[host] == '/') {
    const absl::string_view behind = text.substr(host + 1);
    const size_t size = std::max(SchemeAt(behind), HostAt(behind));
    return size > 0 ? host + 1 + size : 0;
  }
  size_t port = 0;
  if (host < text.size() && text[host] == ':') port = RunOf(text, host + 1, IsDigit);
  const bool has_port = port >= 2 && port <= 5;
  const absl::string_view name = text.substr(0, host);
  const bool is_number =
      std::all_of(name.begin(), name.end(), [](char c) { return IsDigit(c) || c == '.'; });
  if (is_number) {
    const bool is_ip = std::count(name.begin(), name.end(), '.') == 3 && name.back() != '.';
    return is_ip ? host + (has_port ? 1 + port : 0) : 0;
  }
  return has_port ? host + 1 + port : 0;
}

// "[::1]:1234".
size_t BracketedAt(absl::string_view text) {
  if (text[0] != '[') return 0;
  const size_t inside = RunOf(text, 1, [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c)) || c == ':' || c == '.';
  });
  const size_t end = 1 + inside;
  if (!absl::StrContains(text.substr(1, inside), "::") && inside < 15) return 0;
  if (end + 1 >= text.size() || text.substr(end, 2) != "]:") return 0;
  const size_t port = RunOf(text, end + 2, IsDigit);
  return port > 0 ? end + 2 + port : 0;
}

size_t AnyAt(absl::string_view text) {
  for (const auto find : {SchemeAt, PathAt, BracketedAt, HostAt}) {
    if (const size_t size = find(text); size > 0) return size;
  }
  return 0;
}

bool BlamesTheRequest(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

}  // namespace

LocationFilter::LocationFilter(std::vector<std::string> known) : known_(std::move(known)) {
  std::erase(known_, "");
  std::sort(known_.begin(), known_.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

size_t LocationFilter::KnownAt(absl::string_view text, size_t begin) const {
  for (const std::string& location : known_) {
    if (!absl::StartsWith(text.substr(begin), location)) continue;
    const size_t end = begin + location.size();
    // A folder's path is taken out with what lies in it.
    if (end < text.size() && text[end] == '/') {
      return location.size() + WithoutPunctuation(text.substr(end, RunOf(text, end, IsPathByte)));
    }
    if (end == text.size() || !IsWordByte(text[end])) return location.size();
  }
  return 0;
}

std::string LocationFilter::Without(absl::string_view text, bool any) const {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    size_t size = 0;
    if (IsBoundary(text, i)) {
      size = KnownAt(text, i);
      if (size == 0 && any) size = AnyAt(text.substr(i));
    }
    if (size == 0) {
      result.push_back(text[i++]);
      continue;
    }
    // "the sampler at unix:/x: lost" becomes "the sampler: lost".
    if (absl::EndsWith(result, " at ")) {
      result.resize(result.size() - 4);
    } else {
      absl::StrAppend(&result, kPlaceholder);
    }
    i += size;
  }
  return result;
}

std::string LocationFilter::WithoutKnown(absl::string_view text) const {
  return Without(text, /*any=*/false);
}

std::string LocationFilter::WithoutAny(absl::string_view text) const {
  return Without(text, /*any=*/true);
}

absl::Status LocationFilter::ForClient(const absl::Status& status) const {
  if (status.ok()) return status;
  absl::Status result(status.code(), BlamesTheRequest(status.code())
                                         ? WithoutKnown(status.message())
                                         : WithoutAny(status.message()));
  status.ForEachPayload([&result](absl::string_view type_url, const absl::Cord& payload) {
    result.SetPayload(type_url, payload);
  });
  return result;
}

}  // namespace sluice
