#include "services/tokenizer/jinja/json.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/tokenizer/jinja/compare.h"
#include "services/tokenizer/jinja/number_text.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/spelled_number.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

std::string UnicodeEscape(char32_t c) {
  if (c < 0x10000) return absl::StrFormat("\\u%04x", static_cast<uint32_t>(c));
  const uint32_t offset = static_cast<uint32_t>(c) - 0x10000;
  return absl::StrFormat("\\u%04x\\u%04x", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
}

std::string EscapedChar(char32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      return c < 0x20 || (ensure_ascii && c >= 0x7F) ? UnicodeEscape(c) : "";
  }
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return ReprFloat(value);
}

class Dumper {
 public:
  Dumper(Run& run, const JsonLayout& layout) : run_(run), layout_(layout) {}

  void Write(const Value& value) {
    if (!run_.CheckStack() || !run_.Step() || !run_.CheckMemory(out_.size())) return;
    switch (value.kind()) {
      case Value::Kind::kString:
        return WriteString(value.text());
      case Value::Kind::kList:
      case Value::Kind::kTuple:
        return WriteList(value.items());
      case Value::Kind::kDict:
        return WriteDict(value.dict());
      default:
        if (const auto text = Scalar(value); text.has_value()) {
          return out_.Append(*text, value.IsUntrustedNumber());
        }
        run_.TypeError(
            absl::StrCat("Object of type ", TypeName(value), " is not JSON serializable"));
    }
  }

  Text Take() { return std::move(out_); }

 private:
  static std::optional<std::string> Scalar(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::kNone:
        return "null";
      case Value::Kind::kBool:
        return value.bool_value() ? "true" : "false";
      case Value::Kind::kInt:
        return IntToString(value.int_value());
      case Value::Kind::kFloat:
        return value.spelling() != nullptr ? *value.spelling() : FloatText(value.float_value());
      default:
        return std::nullopt;
    }
  }

  void WriteString(const Text& text) {
    const std::string& bytes = text.bytes();
    if (!run_.StepBytes(bytes.size())) return;
    out_.Append("\"");
    size_t done = 0;
    for (size_t at = 0; at < bytes.size();) {
      const Char c = ReadChar(bytes, at);
      if (const std::string escaped = EscapedChar(c.code_point, layout_.ensure_ascii);
          !escaped.empty()) {
        out_.AppendPart(text, done, at);
        out_.Append(escaped, text.IsUntrustedAt(at));
        done = at + c.length;
      }
      at += c.length;
    }
    out_.AppendPart(text, done, bytes.size());
    out_.Append("\"");
  }

  void NewLine() {
    if (!layout_.indent.has_value()) return;
    out_.Append("\n");
    for (int level = 0; level < level_; ++level) out_.Append(*layout_.indent);
  }

  void BeginItem(bool is_first) {
    if (!is_first) out_.Append(layout_.item_separator);
    NewLine();
  }

  void WriteList(const std::vector<Value>& items) {
    if (items.empty()) return out_.Append("[]");
    out_.Append("[");
    ++level_;
    for (size_t i = 0; i < items.size() && !run_.failed(); ++i) {
      BeginItem(i == 0);
      Write(items[i]);
    }
    --level_;
    NewLine();
    out_.Append("]");
  }

  void WriteKey(const Value& key) {
    if (key.IsString()) return WriteString(key.text());
    const std::optional<std::string> text = Scalar(key);
    if (text.has_value()) return WriteString(Text(*text, key.IsUntrustedNumber()));
    run_.TypeError(absl::StrCat("keys must be str, int, float, bool or None, not ", TypeName(key)));
  }

  void WriteDict(const DictObject& dict) {
    if (dict.size() == 0) return out_.Append("{}");
    std::vector<const DictObject::Entry*> entries;
    for (const DictObject::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (layout_.sort_keys) {
      StableSort(run_, &entries,
                 [this](const auto* a, const auto* b) { return Less(run_, a->first, b->first); });
    }
    out_.Append("{");
    ++level_;
    for (size_t i = 0; i < entries.size() && !run_.failed(); ++i) {
      BeginItem(i == 0);
      WriteKey(entries[i]->first);
      out_.Append(layout_.key_separator);
      Write(entries[i]->second);
    }
    --level_;
    NewLine();
    out_.Append("}");
  }

  Run& run_;
  const JsonLayout& layout_;
  Text out_;
  int level_ = 0;
};

Value FromArray(Run& run, const nlohmann::ordered_json& json, const Trust& trust) {
  std::vector<Value> items;
  for (const auto& element : json) {
    if (run.failed()) return Value();
    items.push_back(ValueFromJson(run, element, trust));
  }
  return run.List(std::move(items));
}

bool IsException(const std::string& key, const nlohmann::ordered_json& json, const Trust& trust) {
  if (trust.exception == nullptr || trust.exception->name != key || !json.is_string()) return false;
  const std::vector<std::string>& values = trust.exception->values;
  return std::find(values.begin(), values.end(), json.get_ref<const std::string&>()) !=
         values.end();
}

Value FromObject(Run& run, const nlohmann::ordered_json& json, const Trust& trust) {
  std::vector<DictObject::Entry> entries;
  for (const auto& [key, element] : json.items()) {
    if (run.failed()) return Value();
    entries.emplace_back(run.String(Text(key, trust.is_untrusted)),
                         IsException(key, element, trust) ? ValueFromJson(run, element, Trust())
                                                          : ValueFromJson(run, element, trust));
  }
  return run.failed() ? Value() : run.Dict(std::move(entries));
}

// An integer where there is one of that size, else a float that is written as it was spelled.
Value FromSpelling(Run& run, const std::string& spelling, bool is_untrusted) {
  const bool is_integer = spelling.find_first_of(".eE") == std::string::npos;
  if (const auto number = is_integer ? ParseInt(spelling, 10) : std::nullopt) {
    return Value::Integer(*number, is_untrusted);
  }
  const double value = ParseFloat(spelling).value_or(0);
  if (ReprFloat(value) == spelling) return Value::Float(value, is_untrusted);
  const Value text = run.String(Text(spelling, is_untrusted));
  return run.failed() ? Value() : Value::SpelledFloat(value, text, is_untrusted);
}

}  // namespace

Value ValueFromJson(Run& run, const nlohmann::ordered_json& json, const Trust& trust) {
  if (!run.CheckStack() || !run.Step()) return Value();
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::string:
      return run.String(Text(json.get_ref<const std::string&>(), trust.is_untrusted));
    case nlohmann::ordered_json::value_t::array:
      return FromArray(run, json, trust);
    case nlohmann::ordered_json::value_t::object:
      return FromObject(run, json, trust);
    case nlohmann::ordered_json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
      return Value::Integer(json.get<int64_t>(), trust.is_untrusted);
    case nlohmann::ordered_json::value_t::number_unsigned:
      return Value::Integer(json.get<uint64_t>(), trust.is_untrusted);
    case nlohmann::ordered_json::value_t::number_float:
      return Value::Float(json.get<double>(), trust.is_untrusted);
    case nlohmann::ordered_json::value_t::binary:
      return FromSpelling(run, SpellingOf(json), trust.is_untrusted);
    default:
      return Value::None();
  }
}

Text JsonDump(Run& run, const Value& value, const JsonLayout& layout) {
  Dumper dumper(run, layout);
  dumper.Write(value);
  return dumper.Take();
}

}  // namespace sluice::jinja
