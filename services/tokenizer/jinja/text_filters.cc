#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/filters.h"
#include "services/tokenizer/jinja/item_path.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/json.h"
#include "services/tokenizer/jinja/percent_format.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/text_operations.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

// None and what was not given alike.
bool IsAbsent(const Value& value) { return value.IsMissing() || value.IsNone(); }

Value ToString(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "soft_str", arguments, {}, 0);
  return value.IsString() ? value : run.String(Str(run, value));
}

template <Case change>
Value DoCase(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_case", arguments, {}, 0);
  return run.failed() ? Value() : run.String(WithCase(run, Str(run, value), change));
}

// Jinja's own idea of words: behind white space, hyphens and opening brackets.
Value Title(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_title", arguments, {}, 0);
  const Text text = Str(run, value);
  Text out;
  bool begins = true;
  if (!run.CheckMemory(text.size() * 2) || !run.StepBytes(text.size() * 4)) return Value();
  for (size_t at = 0; at < text.size();) {
    const Char c = ReadChar(text.bytes(), at);
    const bool parts = IsSpace(c.code_point) || c.code_point == '-' || c.code_point == '(' ||
                       c.code_point == '{' || c.code_point == '[' || c.code_point == '<';
    std::string mapped;
    begins ? AppendUpper(c.code_point, &mapped) : AppendLower(c.code_point, &mapped);
    out.Append(mapped, text.IsUntrustedAt(at));
    begins = parts;
    at += c.length;
  }
  return run.String(std::move(out));
}

Value Trim(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_trim", arguments, {"chars"}, 0);
  std::optional<Text> chars;
  if (!IsAbsent(bound[0])) chars = bound.String(0, "");
  const Text text = Str(run, value);
  if (!run.StepBytes(text.size())) return Value();
  return run.String(Stripped(
      text, chars.has_value() ? std::optional<std::string_view>(chars->bytes()) : std::nullopt,
      Side::kBoth));
}

Value DoReplace(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_replace", arguments, {"old", "new", "count"}, 2);
  const Int count = IsAbsent(bound[2]) ? -1 : bound.Integer(2, -1);
  if (run.failed()) return Value();
  return run.String(Replaced(run, Str(run, value), Str(run, bound[0]), Str(run, bound[1]), count));
}

Value DoJoin(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_join", arguments, {"d", "attribute"}, 0);
  if (run.failed()) return Value();
  const std::optional<ItemPath> path =
      IsAbsent(bound[1]) ? std::nullopt : std::optional(ItemPath(run, bound[1]));
  std::vector<Text> parts;
  for (const Value& item : ToVector(run, value)) {
    if (run.failed()) return Value();
    parts.push_back(Str(run, path.has_value() ? path->Follow(run, item) : item));
  }
  return run.String(JoinTexts(run, bound.Has(0) ? Str(run, bound[0]) : Text(), parts));
}

Value DoFormat(Run& run, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.keywords.empty()) {
    return run.Fail(Error::Kind::kRuntime,
                    "can't handle positional and keyword arguments at the same time");
  }
  const Text format = Str(run, value);
  if (arguments.keywords.empty()) {
    return PercentFormat(run, format, run.Tuple(arguments.positional));
  }
  std::vector<DictObject::Entry> entries;
  for (const auto& [name, item] : arguments.keywords) entries.emplace_back(run.String(name), item);
  const Value fields = run.Dict(std::move(entries));
  return run.failed() ? Value() : PercentFormat(run, format, fields);
}

// json.dumps, as Hugging Face sets it up.
Value ToJson(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"},
                    0);
  JsonLayout layout;
  layout.ensure_ascii = bound.Flag(0, false);
  layout.sort_keys = bound.Flag(3, false);
  if (bound[1].IsString()) {
    layout.indent = bound[1].bytes();
  } else if (!IsAbsent(bound[1])) {
    const Int width = bound.Integer(1, 0);
    if (width > 1000) return run.Fail(Error::Kind::kLimit, "tojson's indent is too large");
    layout.indent = std::string(static_cast<size_t>(std::max<Int>(width, 0)), ' ');
  }
  if (layout.indent.has_value()) layout.item_separator = Text(",");
  if (!IsAbsent(bound[2])) {
    const std::vector<Value> separators = ToVector(run, bound[2]);
    if (separators.size() != 2 || !separators[0].IsString() || !separators[1].IsString()) {
      return run.TypeError("tojson's separators are two strings");
    }
    layout.item_separator = separators[0].text();
    layout.key_separator = separators[1].text();
  }
  return run.failed() ? Value() : run.String(JsonDump(run, value, layout));
}

Value PrettyPrint(Run& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "do_pprint", arguments, {}, 0);
  return run.failed() ? Value() : run.String(Repr(run, value));
}

constexpr std::array<FilterEntry, 11> kTextFilters = {{
    {"string", ToString},
    {"upper", DoCase<Case::kUpper>},
    {"lower", DoCase<Case::kLower>},
    {"capitalize", DoCase<Case::kCapitalized>},
    {"title", Title},
    {"trim", Trim},
    {"replace", DoReplace},
    {"join", DoJoin},
    {"format", DoFormat},
    {"tojson", ToJson},
    {"pprint", PrettyPrint},
}};

}  // namespace

Filter FindTextFilter(std::string_view name) { return FindIn(kTextFilters, name); }

}  // namespace sluice::jinja
