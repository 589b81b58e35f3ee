#include "services/tokenizer/jinja/python_text.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

// What repr writes for a character that it does not show as it is; empty for one that it does.
std::string Escaped(char32_t c, char quote) {
  if (c == static_cast<char32_t>(quote) || c == '\\') return {'\\', static_cast<char>(c)};
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (IsPrintable(c)) return "";
  if (c < 0x100) return absl::StrFormat("\\x%02x", static_cast<uint32_t>(c));
  if (c < 0x10000) return absl::StrFormat("\\u%04x", static_cast<uint32_t>(c));
  return absl::StrFormat("\\U%08x", static_cast<uint32_t>(c));
}

void AppendQuoted(const Text& text, Text* out) {
  const std::string& bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string::npos;
  const char quote = has_single && bytes.find('"') == std::string::npos ? '"' : '\'';
  out->Append(std::string_view(&quote, 1));
  size_t done = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Char c = ReadChar(bytes, at);
    const std::string escaped = Escaped(c.code_point, quote);
    if (!escaped.empty()) {
      out->AppendPart(text, done, at);
      out->Append(escaped, text.IsUntrustedAt(at));
      done = at + c.length;
    }
    at += c.length;
  }
  out->AppendPart(text, done, bytes.size());
  out->Append(std::string_view(&quote, 1));
}

// Writes the repr of a value; stops where the run fails.
class Writer {
 public:
  explicit Writer(Run& run) : run_(run) {}

  void Write(const Value& value) {
    if (!run_.CheckStack() || !run_.Step() || !run_.CheckMemory(out_.size())) return;
    switch (value.kind()) {
      case Value::Kind::kString:
        return WriteString(value);
      case Value::Kind::kList:
        return WriteItems(value.items(), "[", "]");
      case Value::Kind::kTuple:
        return WriteItems(value.items(), "(", value.items().size() == 1 ? ",)" : ")");
      case Value::Kind::kDict:
        return WriteDict(value.dict());
      case Value::Kind::kNative:
        return out_.Append(value.native().Repr(run_));
      default:
        return out_.Append(Plain(value), value.IsUntrustedNumber());
    }
  }

  Text Take() { return std::move(out_); }

 private:
  static std::string Plain(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::kNone:
        return "None";
      case Value::Kind::kBool:
        return value.bool_value() ? "True" : "False";
      case Value::Kind::kInt:
        return IntToString(value.int_value());
      case Value::Kind::kFloat:
        return value.spelling() != nullptr ? *value.spelling() : ReprFloat(value.float_value());
      case Value::Kind::kRange:
        return RangeText(value.range());
      case Value::Kind::kIterator:
        return "<generator object>";
      default:
        return "Undefined";
    }
  }

  static std::string RangeText(const RangeObject& range) {
    std::string text =
        absl::StrCat("range(", IntToString(range.begin), ", ", IntToString(range.end));
    if (range.step != 1) absl::StrAppend(&text, ", ", IntToString(range.step));
    return text + ")";
  }

  void WriteString(const Value& value) {
    if (!run_.StepBytes(value.text().size())) return;
    if (value.string().is_markup) out_.Append("Markup(");
    AppendQuoted(value.text(), &out_);
    if (value.string().is_markup) out_.Append(")");
  }

  void WriteItems(const std::vector<Value>& items, std::string_view open, std::string_view close) {
    out_.Append(open);
    for (size_t i = 0; i < items.size() && !run_.failed(); ++i) {
      if (i > 0) out_.Append(", ");
      Write(items[i]);
    }
    out_.Append(close);
  }

  void WriteDict(const DictObject& dict) {
    out_.Append("{");
    bool is_first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (run_.failed()) return;
      if (!is_first) out_.Append(", ");
      is_first = false;
      Write(key);
      out_.Append(": ");
      Write(value);
    }
    out_.Append("}");
  }

  Run& run_;
  Text out_;
};

}  // namespace

Text Str(Run& run, const Value& value) {
  if (value.IsString()) return value.text();
  if (value.IsUndefined() || value.IsMissing()) return Text();
  return Repr(run, value);
}

Text Repr(Run& run, const Value& value) {
  Writer writer(run);
  writer.Write(value);
  return writer.Take();
}

std::string ReprString(std::string_view text) {
  Text quoted;
  AppendQuoted(Text(std::string(text)), &quoted);
  return quoted.bytes();
}

std::string ReprFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view shortest(buffer, end.ptr - buffer);
  const size_t e = shortest.find('e');
  int exponent = 0;
  const char* digits = buffer + e + 1 + (shortest[e + 1] == '+' ? 1 : 0);
  std::from_chars(digits, end.ptr, exponent);
  if (exponent < -4 || exponent >= 16) {
    return absl::StrCat(std::string(shortest.substr(0, e)), "e", exponent < 0 ? "-" : "+",
                        absl::Dec(std::abs(exponent), absl::kZeroPad2));
  }
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string text(buffer, fixed.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

}  // namespace sluice::jinja
