#include <array>
#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/filters.h"
#include "services/tokenizer/jinja/html.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/text_operations.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

Value Escape(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "escape", arguments, {}, 0);
  return run.failed() ? Value() : run.String(Escaped(run, value), /*is_markup=*/true);
}

Value ForceEscape(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_forceescape", arguments, {}, 0);
  return run.failed() ? Value() : run.String(EscapeHtml(run, Str(run, value)), /*is_markup=*/true);
}

Value MarkSafe(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_mark_safe", arguments, {}, 0);
  return run.failed() ? Value() : run.String(Str(run, value), /*is_markup=*/true);
}

// Without what stands between `open` and `close`.
Text Without(Run& run, const Text& text, std::string_view open, std::string_view close) {
  Text out;
  size_t at = 0;
  while (run.Step()) {
    const size_t begin = text.bytes().find(open, at);
    if (begin == std::string::npos) break;
    const size_t end = text.bytes().find(close, begin);
    if (end == std::string::npos) break;
    out.AppendPart(text, at, begin);
    at = end + close.size();
  }
  out.AppendPart(text, at, text.size());
  return out;
}

Text Unescaped(Run& run, Text text) {
  constexpr std::array<std::pair<const char*, const char*>, 7> kEntities = {{{"&lt;", "<"},
                                                                             {"&gt;", ">"},
                                                                             {"&#39;", "'"},
                                                                             {"&#34;", "\""},
                                                                             {"&quot;", "\""},
                                                                             {"&nbsp;", "\xC2\xA0"},
                                                                             {"&amp;", "&"}}};
  for (const auto& [entity, character] : kEntities) {
    const bool is_untrusted = text.HasUntrusted();
    text = Replaced(run, text, Text(entity), Text(character, is_untrusted), -1);
  }
  return text;
}

Value StripTags(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_striptags", arguments, {}, 0);
  Text text = Without(run, Str(run, value), "<!--", "-->");
  text = Without(run, text, "<", ">");
  return run.String(
      Unescaped(run, JoinTexts(run, Text(" "), SplitText(run, text, std::nullopt, -1, false))));
}

Value XmlAttributes(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_xmlattr", arguments, {"autospace"}, 0);
  if (value.IsUndefined()) return run.FailUndefined(value);
  if (!value.IsDict()) {
    return run.Fail(Error::Kind::kRuntime,
                    absl::StrCat("'", TypeName(value), "' object has no attribute 'items'"));
  }
  Text out;
  for (const auto& [key, item] : value.dict().entries()) {
    if (item.IsNone() || item.IsUndefined() || run.failed()) continue;
    const Text name = Str(run, key);
    if (name.bytes().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      return run.ValueError(
          absl::StrCat("Invalid character in attribute name: ", ReprString(name.bytes())));
    }
    if (!out.empty() || bound.Flag(0, true)) out.Append(" ");
    out.Append(Escaped(run, key));
    out.Append("=\"");
    out.Append(Escaped(run, item));
    out.Append("\"");
  }
  return run.String(std::move(out));
}

Text UrlQuoted(Run& run, const Value& value, bool in_query) {
  const Text text = Str(run, value);
  Text out;
  if (!run.CheckMemory(text.size() * 3) || !run.StepBytes(text.size() * 4)) return out;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text.bytes()[at];
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                          std::string_view("_.-~").find(c) != std::string_view::npos ||
                          (c == '/' && !in_query);
    const std::string quoted = is_plain ? std::string(1, c)
                               : c == ' ' && in_query
                                   ? "+"
                                   : absl::StrFormat("%%%02X", static_cast<uint8_t>(c));
    out.Append(quoted, text.IsUntrustedAt(at));
  }
  return out;
}

Value UrlEncode(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_urlencode", arguments, {}, 0);
  if (value.IsString() || !IsIterable(value)) return run.String(UrlQuoted(run, value, false));
  std::vector<DictObject::Entry> pairs;
  if (value.IsDict()) {
    pairs = value.dict().entries();
  } else {
    for (const Value& pair : ToVector(run, value)) {
      const std::vector<Value> parts = ToVector(run, pair);
      if (parts.size() != 2) return run.ValueError("urlencode takes pairs");
      pairs.emplace_back(parts[0], parts[1]);
    }
  }
  std::vector<Text> parts;
  for (const auto& [key, item] : pairs) {
    Text part = UrlQuoted(run, key, true);
    part.Append("=");
    part.Append(UrlQuoted(run, item, true));
    parts.push_back(std::move(part));
  }
  return run.String(JoinTexts(run, Text("&"), parts));
}

constexpr std::array<FilterEntry, 7> kHtmlFilters = {{
    {"escape", Escape},
    {"e", Escape},
    {"forceescape", ForceEscape},
    {"safe", MarkSafe},
    {"striptags", StripTags},
    {"xmlattr", XmlAttributes},
    {"urlencode", UrlEncode},
}};

}  // namespace

Filter FindHtmlFilter(std::string_view name) { return FindIn(kHtmlFilters, name); }

}  // namespace sluice::jinja
