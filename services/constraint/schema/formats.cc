#include "services/constraint/schema/formats.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "services/constraint/json/message.h"
#include "services/constraint/regex/pattern.h"

namespace sluice {
namespace {

// RFC 3339, with the days that each month has.
std::string Date() {
  const std::string leap = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)";
  return Message("([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])",
                 "|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|", leap, "-02-29)");
}

std::string Time() {
  return "(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?"
         "([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])|23:59:60(\\.[0-9]+)?([Zz]|[+-]00:00))";
}

// RFC 3339, appendix A.
std::string Duration() {
  const std::string time = "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)";
  return Message("P(([0-9]+D|[0-9]+M([0-9]+D)?|[0-9]+Y([0-9]+M([0-9]+D)?)?)(", time, ")?|", time,
                 "|[0-9]+W)");
}

std::string Ipv4() {
  const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return Message("(", octet, "(\\.", octet, "){3})");
}

// RFC 3986's IPv6address, rule by rule.
std::string Ipv6() {
  const std::string h16 = "[0-9A-Fa-f]{1,4}";
  const std::string group = Message("(", h16, ":)");
  const std::string last = Message("(", h16, ":", h16, "|", Ipv4(), ")");
  std::string all = Message("(", group, "{6}", last);
  for (int before = 0; before <= 7; ++before) {
    const std::string head =
        before == 0 ? "" : Message("(", group, "{0,", before - 1, "}", h16, ")?");
    const int after = 5 - before;
    std::string tail = after > 0     ? Message(group, "{", after, "}", last)
                       : after == 0  ? last
                       : after == -1 ? h16
                                     : "";
    if (before <= 7) all += Message("|", head, "::", tail);
  }
  return all + ")";
}

std::string Hostname() {
  const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return Message("(?=.{1,253}$)", label, "(\\.", label, ")*");
}

std::string Email(bool international) {
  const std::string atom =
      Message("[A-Za-z0-9!#$%&'*+/=?^_`{|}~", international ? "\\u{80}-\\u{10FFFF}" : "", "-]+");
  const std::string label =
      international ? "[A-Za-z0-9\\u{80}-\\u{10FFFF}]([A-Za-z0-9\\u{80}-\\u{10FFFF}-]{0,61}"
                      "[A-Za-z0-9\\u{80}-\\u{10FFFF}])?"
                    : "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return Message("(", atom, "(\\.", atom, ")*|\"([ !#-\\[\\]-~]|\\\\[ -~])*\")@(", label, "(\\.",
                 label, ")*|\\[(", Ipv4(), "|IPv6:", Ipv6(), ")\\])");
}

// RFC 3986 and, with characters beyond ASCII, RFC 3987.
std::string UriReference(bool relative, bool international) {
  const std::string more = international ? "\\u{A0}-\\u{D7FF}\\u{F900}-\\u{10FFFF}" : "";
  const std::string percent = "%[0-9A-Fa-f]{2}";
  const auto set = [&](std::string_view extra) {
    return Message("([A-Za-z0-9._~!$&'()*+,;=", extra, more, "-]|", percent, ")");
  };
  const std::string pchar = set(":@");
  const std::string authority =
      Message("(", set(":"), "*@)?(\\[(", Ipv6(),
              "|v[0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|", set(""), "*)(:[0-9]*)?");
  const std::string segments = Message("(/", pchar, "*)*");
  const std::string absolute = Message("/(", pchar, "+", segments, ")?");
  const std::string tail = Message("(\\?(", pchar, "|[/?])*)?(#(", pchar, "|[/?])*)?");
  const std::string full = Message("[A-Za-z][A-Za-z0-9+.-]*:(//", authority, segments, "|",
                                   absolute, "|", pchar, "+", segments, ")?", tail);
  if (!relative) return full;
  return Message("(", full, "|(//", authority, segments, "|", absolute, "|", set("@"), "+",
                 segments, ")?", tail, ")");
}

std::string UriTemplate() {
  const std::string name = "([A-Za-z0-9_]|%[0-9A-Fa-f]{2})(\\.?([A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*";
  const std::string spec = Message(name, "(:[1-9][0-9]{0,3}|\\*)?");
  return Message(
      "([!#$&(-;=?-\\[\\]_a-z~\\u{A0}-\\u{D7FF}\\u{E000}-\\u{10FFFF}]|%[0-9A-Fa-f]{2}|\\{[+#./"
      ";?&=,!@|]?",
      spec, "(,", spec, ")*\\})*");
}

struct Format {
  std::string_view name;
  std::string (*pattern)();
};

constexpr Format kFormats[] = {
    {"date", Date},
    {"time", Time},
    {"date-time", [] { return Message(Date(), "[Tt]", Time()); }},
    {"duration", Duration},
    {"email", [] { return Email(false); }},
    {"idn-email", [] { return Email(true); }},
    {"hostname", Hostname},
    {"ipv4", Ipv4},
    {"ipv6", Ipv6},
    {"uri", [] { return UriReference(false, false); }},
    {"uri-reference", [] { return UriReference(true, false); }},
    {"iri", [] { return UriReference(false, true); }},
    {"iri-reference", [] { return UriReference(true, true); }},
    {"uri-template", UriTemplate},
    {"uuid", [] { return std::string("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"); }},
    {"json-pointer", [] { return std::string("(/([^/~]|~[01])*)*"); }},
    {"relative-json-pointer", [] { return std::string("(0|[1-9][0-9]*)(#|(/([^/~]|~[01])*)*)"); }},
    {"regex", nullptr},
    {"idn-hostname", nullptr},
};

}  // namespace

absl::StatusOr<ExprId> FormatLanguage(std::string_view name, ExprSpace& space) {
  const auto* format = std::find_if(std::begin(kFormats), std::end(kFormats),
                                    [&](const Format& f) { return f.name == name; });
  if (format == std::end(kFormats)) return absl::NotFoundError("");
  if (format->pattern == nullptr) return absl::UnimplementedError("");
  return CompilePattern(format->pattern(), PatternMatch::kWhole, space);
}

}  // namespace sluice
