#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/arguments.h"
#include "services/tokenizer/jinja/brace_format.h"
#include "services/tokenizer/jinja/iterate.h"
#include "services/tokenizer/jinja/methods.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/text_operations.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

// A separator or a set of characters; nullopt for None and where not given.
std::optional<Text> OptionalText(const Bound& bound, size_t parameter) {
  if (!bound.Has(parameter) || bound[parameter].IsNone()) return std::nullopt;
  return bound.String(parameter, "");
}

std::optional<std::string_view> View(const std::optional<Text>& text) {
  return text.has_value() ? std::optional<std::string_view>(text->bytes()) : std::nullopt;
}

Value ListOf(Run& run, std::vector<Text> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (Text& part : parts) items.push_back(run.String(std::move(part)));
  return run.List(std::move(items));
}

template <Side side>
Value Strip(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "strip", arguments, {"chars"}, 0);
  const std::optional<Text> chars = OptionalText(bound, 0);
  if (!run.StepBytes(self.text().size())) return Value();
  return run.String(Stripped(self.text(), View(chars), side));
}

template <bool from_right>
Value Split(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, from_right ? "rsplit" : "split", arguments, {"sep", "maxsplit"}, 0);
  const std::optional<Text> separator = OptionalText(bound, 0);
  const Int max_splits = bound.Integer(1, -1);
  if (run.failed()) return Value();
  return ListOf(run, SplitText(run, self.text(), View(separator), max_splits, from_right));
}

Value SplitLinesMethod(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "splitlines", arguments, {"keepends"}, 0);
  return ListOf(run, SplitLines(run, self.text(), bound.Flag(0, false)));
}

template <bool at_end>
bool Matches(Run& run, const std::string& text, const std::string& affix) {
  if (!run.StepBytes(affix.size())) return false;
  return at_end ? text.ends_with(affix) : text.starts_with(affix);
}

// self[start:end] for the two parameters behind the first.
Value Window(Run& run, const Value& self, const Bound& bound) {
  if (!bound.Has(1) && !bound.Has(2)) return self;
  return GetSlice(run, self, bound[1], bound[2], Value());
}

template <bool at_end>
Value HasAffix(Run& run, const Value& self, const Arguments& arguments) {
  const char* name = at_end ? "endswith" : "startswith";
  const Bound bound(run, name, arguments, {"affix", "start", "end"}, 1);
  const Value window = Window(run, self, bound);
  if (run.failed()) return Value();
  if (bound[0].IsString())
    return Value::Bool(Matches<at_end>(run, window.bytes(), bound[0].bytes()));
  if (!bound[0].Is(Value::Kind::kTuple)) {
    return run.TypeError(
        absl::StrCat(name, " first arg must be str or a tuple of str, not ", TypeName(bound[0])));
  }
  for (const Value& affix : bound[0].items()) {
    if (!affix.IsString()) {
      return run.TypeError(
          absl::StrCat("tuple for ", name, " must only contain str, not ", TypeName(affix)));
    }
    if (run.Step() && Matches<at_end>(run, window.bytes(), affix.bytes())) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool at_end>
Value RemoveAffix(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, at_end ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1);
  const Text affix = bound.String(0, "");
  if (run.failed() || !Matches<at_end>(run, self.bytes(), affix.bytes())) return self;
  const size_t size = self.text().size();
  return run.String(at_end ? self.text().Part(0, size - affix.size())
                           : self.text().Part(affix.size(), size));
}

Value Replace(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "replace", arguments, {"old", "new", "count"}, 2);
  const Text from = bound.String(0, "");
  const Text to = bound.String(1, "");
  const Int count = bound.Integer(2, -1);
  return run.failed() ? Value() : run.String(Replaced(run, self.text(), from, to, count));
}

// The character index where the part was found; -1 where it is not.
Int FindPart(Run& run, const Value& self, const Bound& bound, bool from_right) {
  const Value window = Window(run, self, bound);
  const Text part = bound.String(0, "");
  if (run.failed() || !run.StepBytes(self.text().size())) return -1;
  const size_t at = from_right ? FindLastBytes(window.bytes(), part.bytes())
                               : FindBytes(window.bytes(), part.bytes());
  if (at == std::string::npos) return -1;
  const Int size = Length(run, self);
  const Int start = bound.Has(1) && !bound[1].IsNone() ? bound.Integer(1, 0) : 0;
  const Int offset = start < 0 ? std::max<Int>(start + size, 0) : start;
  if (offset > size) return -1;
  return offset + static_cast<Int>(CountChars(std::string_view(window.bytes()).substr(0, at)));
}

template <bool from_right, bool must_be_there>
Value Find(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "find", arguments, {"sub", "start", "end"}, 1);
  const Int at = FindPart(run, self, bound, from_right);
  if (must_be_there && at < 0) return run.ValueError("substring not found");
  return Value::Integer(at);
}

Value Count(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "count", arguments, {"sub", "start", "end"}, 1);
  const Value window = Window(run, self, bound);
  const Text part = bound.String(0, "");
  if (run.failed() || !run.StepBytes(self.text().size())) return Value();
  if (part.empty()) return Value::Integer(Length(run, window) + 1);
  Int count = 0;
  for (size_t at = FindBytes(window.bytes(), part.bytes()); at != std::string::npos;
       at = FindBytes(window.bytes(), part.bytes(), at + part.size())) {
    ++count;
  }
  return Value::Integer(count);
}

template <Case change>
Value ChangeCase(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "case", arguments, {}, 0);
  return run.failed() ? Value() : run.String(WithCase(run, self.text(), change));
}

Value Join(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "join", arguments, {"iterable"}, 1);
  if (run.failed()) return Value();
  std::vector<Text> parts;
  const std::vector<Value> items = ToVector(run, bound[0]);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].IsString()) {
      return run.TypeError(absl::StrCat("sequence item ", i, ": expected str instance, ",
                                        TypeName(items[i]), " found"));
    }
    parts.push_back(items[i].text());
  }
  return run.String(JoinTexts(run, self.text(), parts));
}

Value Format(Run& run, const Value& self, const Arguments& arguments) {
  return BraceFormat(run, self.text(), arguments);
}

Value FormatMap(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "format_map", arguments, {"mapping"}, 1);
  if (run.failed()) return Value();
  if (!bound[0].IsDict()) return run.TypeError("format_map() takes a mapping");
  Arguments fields;
  for (const auto& [key, value] : bound[0].dict().entries()) {
    if (key.IsString()) fields.keywords.emplace_back(key.bytes(), value);
  }
  return BraceFormat(run, self.text(), fields);
}

template <Side side>
Value Justify(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "justify", arguments, {"width", "fillchar"}, 1);
  const Int width = bound.Integer(0, 0);
  const Text fill = bound.String(1, " ");
  if (CountChars(fill.bytes()) != 1) {
    return run.TypeError("The fill character must be exactly one character long");
  }
  return run.String(Justified(run, self.text(), width, fill, side));
}

Value ZeroFill(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "zfill", arguments, {"width"}, 1);
  const Int width = bound.Integer(0, 0);
  const Text& text = self.text();
  const size_t sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+') ? 1 : 0;
  Text out = text.Part(0, sign);
  out.Append(Justified(run, text.Part(sign, text.size()), width - static_cast<Int>(sign), Text("0"),
                       Side::kRight));
  return run.String(std::move(out));
}

template <bool from_right>
Value Partition(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "partition", arguments, {"sep"}, 1);
  const Text separator = bound.String(0, "");
  if (run.failed()) return Value();
  if (separator.empty()) return run.ValueError("empty separator");
  const Text& text = self.text();
  const size_t at = from_right ? FindLastBytes(text.bytes(), separator.bytes())
                               : FindBytes(text.bytes(), separator.bytes());
  if (at == std::string::npos) {
    const Value empty = run.String("");
    return from_right ? run.Tuple({empty, empty, self}) : run.Tuple({self, empty, empty});
  }
  const size_t end = at + separator.size();
  return run.Tuple({run.String(text.Part(0, at)), run.String(text.Part(at, end)),
                    run.String(text.Part(end, text.size()))});
}

Value ExpandTabs(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "expandtabs", arguments, {"tabsize"}, 0);
  const Int size = bound.Integer(0, 8);
  const Text& text = self.text();
  Text out;
  Int column = 0;
  for (size_t at = 0; at < text.size() && run.Step(1);) {
    const Char c = ReadChar(text.bytes(), at);
    if (c.code_point == '\t') {
      const Int spaces = size > 0 ? size - column % size : 0;
      if (spaces > Int{1} << 20 || !run.CheckMemory(out.size() + static_cast<size_t>(spaces)))
        break;
      out.Append(std::string(static_cast<size_t>(spaces), ' '), text.IsUntrustedAt(at));
      column += spaces;
    } else {
      out.AppendPart(text, at, at + c.length);
      column = c.code_point == '\n' || c.code_point == '\r' ? 0 : column + 1;
    }
    at += c.length;
  }
  return run.String(std::move(out));
}

constexpr std::array<MethodEntry, 32> kMethods = {{
    {"strip", Strip<Side::kBoth>},
    {"lstrip", Strip<Side::kLeft>},
    {"rstrip", Strip<Side::kRight>},
    {"split", Split<false>},
    {"rsplit", Split<true>},
    {"splitlines", SplitLinesMethod},
    {"startswith", HasAffix<false>},
    {"endswith", HasAffix<true>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", Replace},
    {"find", Find<false, false>},
    {"rfind", Find<true, false>},
    {"index", Find<false, true>},
    {"rindex", Find<true, true>},
    {"count", Count},
    {"upper", ChangeCase<Case::kUpper>},
    {"lower", ChangeCase<Case::kLower>},
    {"casefold", ChangeCase<Case::kLower>},
    {"title", ChangeCase<Case::kTitle>},
    {"capitalize", ChangeCase<Case::kCapitalized>},
    {"swapcase", ChangeCase<Case::kSwapped>},
    {"join", Join},
    {"format", Format},
    {"format_map", FormatMap},
    {"ljust", Justify<Side::kLeft>},
    {"rjust", Justify<Side::kRight>},
    {"center", Justify<Side::kBoth>},
    {"zfill", ZeroFill},
    {"partition", Partition<false>},
    {"rpartition", Partition<true>},
    {"expandtabs", ExpandTabs},
}};

}  // namespace

Method FindStringMethod(std::string_view name) { return FindIn(kMethods, name); }

}  // namespace sluice::jinja
