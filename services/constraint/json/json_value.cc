#include "services/constraint/json/json_value.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "services/constraint/json/decimal.h"
#include "services/constraint/json/message.h"

namespace sluice {
namespace {

// Recursive descent over one text. The first error stays.
class Parser {
 public:
  Parser(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  absl::StatusOr<JsonValue> Run() {
    JsonValue value;
    Value(value, 0);
    SkipSpace();
    if (status_.ok() && at_ < text_.size()) Fail("something follows the document");
    if (!status_.ok()) return status_;
    return value;
  }

 private:
  void Fail(std::string_view what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(Message("JSON, byte ", at_, ": ", what));
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(char c) {
    if (Peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  void SkipSpace() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }

  void Value(JsonValue& value, int depth) {
    if (depth > limits_.max_depth) {
      if (status_.ok())
        status_ =
            absl::ResourceExhaustedError(Message("JSON nested deeper than ", limits_.max_depth));
      return;
    }
    SkipSpace();
    switch (Peek()) {
      case '{':
        return Object(value, depth);
      case '[':
        return Array(value, depth);
      case '"':
        value.type = JsonValue::Type::kString;
        return String(value.text);
      case 't':
        return Word("true", JsonValue::Type::kTrue, value);
      case 'f':
        return Word("false", JsonValue::Type::kFalse, value);
      case 'n':
        return Word("null", JsonValue::Type::kNull, value);
      default:
        return Number(value);
    }
  }

  void Word(std::string_view word, JsonValue::Type type, JsonValue& value) {
    if (text_.substr(at_, word.size()) != word) return Fail("not a value");
    at_ += word.size();
    value.type = type;
  }

  bool Digits() {
    const size_t begin = at_;
    while (Peek() >= '0' && Peek() <= '9') ++at_;
    return at_ > begin;
  }

  void Number(JsonValue& value) {
    const size_t begin = at_;
    Take('-');
    if (!Take('0') && !Digits()) return Fail("not a value");
    if (Take('.') && !Digits()) return Fail("a digit must follow the point");
    if (Peek() == 'e' || Peek() == 'E') {
      ++at_;
      if (!Take('+')) Take('-');
      if (!Digits()) return Fail("a digit must follow the exponent's sign");
    }
    value.type = JsonValue::Type::kNumber;
    value.text = std::string(text_.substr(begin, at_ - begin));
  }

  void Array(JsonValue& value, int depth) {
    value.type = JsonValue::Type::kArray;
    Take('[');
    SkipSpace();
    if (Take(']')) return;
    do {
      Value(value.items.emplace_back(), depth + 1);
      if (!status_.ok()) return;
      SkipSpace();
    } while (Take(','));
    if (!Take(']')) Fail("expected , or ]");
  }

  void Object(JsonValue& value, int depth) {
    value.type = JsonValue::Type::kObject;
    Take('{');
    SkipSpace();
    if (Take('}')) return;
    absl::flat_hash_set<std::string> seen;
    do {
      SkipSpace();
      if (Peek() != '"') return Fail("expected a key");
      auto& [key, inner] = value.members.emplace_back();
      String(key);
      if (!status_.ok()) return;
      if (!seen.insert(key).second) return Fail(Message("key ", JsonQuoted(key), " twice"));
      SkipSpace();
      if (!Take(':')) return Fail("expected :");
      Value(inner, depth + 1);
      if (!status_.ok()) return;
      SkipSpace();
    } while (Take(','));
    if (!Take('}')) Fail("expected , or }");
  }

  uint32_t Hex4() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = Peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) {
        Fail("expected four hexadecimal digits");
        return 0;
      }
      code = code * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    return code;
  }

  void UnicodeEscape(std::string& out) {
    uint32_t code = Hex4();
    if (code >= 0xDC00 && code <= 0xDFFF) return Fail("half a surrogate pair");
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (!Take('\\') || !Take('u')) return Fail("half a surrogate pair");
      const uint32_t low = Hex4();
      if (low < 0xDC00 || low > 0xDFFF) return Fail("half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    AppendUtf8(code, out);
  }

  static void AppendUtf8(uint32_t code, std::string& out) {
    if (code < 0x80) {
      out += static_cast<char>(code);
      return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    const int lead = more == 1 ? 0xC0 : more == 2 ? 0xE0 : 0xF0;
    out += static_cast<char>(lead | (code >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F));
  }

  void String(std::string& out) {
    Take('"');
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return;
      if (static_cast<unsigned char>(c) < 0x20) return Fail("a control character in a string");
      if (c != '\\') {
        out += c;
        continue;
      }
      constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
      const char letter = Peek();
      ++at_;
      const size_t index = kLetters.find(letter);
      if (index != std::string_view::npos) {
        out += kMeant[index];
      } else if (letter == 'u') {
        UnicodeEscape(out);
      } else {
        return Fail("an escape that JSON does not have");
      }
      if (!status_.ok()) return;
    }
    Fail("a string without its end");
  }

  const std::string_view text_;
  const JsonLimits& limits_;
  size_t at_ = 0;
  absl::Status status_;
};

void AppendText(const JsonValue& value, std::string& out) {
  switch (value.type) {
    case JsonValue::Type::kNull:
      out += "null";
      return;
    case JsonValue::Type::kFalse:
      out += "false";
      return;
    case JsonValue::Type::kTrue:
      out += "true";
      return;
    case JsonValue::Type::kNumber:
      out += value.text;
      return;
    case JsonValue::Type::kString:
      out += JsonQuoted(value.text);
      return;
    case JsonValue::Type::kArray: {
      out += '[';
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out += ',';
        AppendText(value.items[i], out);
      }
      out += ']';
      return;
    }
    case JsonValue::Type::kObject: {
      out += '{';
      for (size_t i = 0; i < value.members.size(); ++i) {
        if (i > 0) out += ',';
        out += JsonQuoted(value.members[i].name);
        out += ':';
        AppendText(value.members[i].value, out);
      }
      out += '}';
      return;
    }
  }
}

}  // namespace

const JsonValue* JsonValue::Find(std::string_view name) const {
  for (const Member& member : members)
    if (member.name == name) return &member.value;
  return nullptr;
}

absl::StatusOr<JsonValue> ParseJsonValue(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return absl::ResourceExhaustedError(
        Message("JSON of ", text.size(), " bytes; accepted: up to ", limits.max_bytes));
  return Parser(text, limits).Run();
}

bool JsonEqual(const JsonValue& a, const JsonValue& b) {
  if (a.type != b.type) return false;
  switch (a.type) {
    case JsonValue::Type::kNumber:
      return Decimal::Parse(a.text).Compare(Decimal::Parse(b.text)) == 0;
    case JsonValue::Type::kString:
      return a.text == b.text;
    case JsonValue::Type::kArray:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), JsonEqual);
    case JsonValue::Type::kObject:
      return a.members.size() == b.members.size() &&
             std::all_of(a.members.begin(), a.members.end(), [&](const JsonValue::Member& member) {
               const JsonValue* other = b.Find(member.name);
               return other != nullptr && JsonEqual(member.value, *other);
             });
    default:
      return true;
  }
}

std::string JsonQuoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    constexpr std::string_view kLetters = "\"\\bfnrt", kMeant = "\"\\\b\f\n\r\t";
    const size_t index = kMeant.find(c);
    if (index != std::string_view::npos) {
      out += '\\';
      out += kLetters[index];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += absl::StrFormat("\\u%04x", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string JsonText(const JsonValue& value) {
  std::string out;
  AppendText(value, out);
  return out;
}

}  // namespace sluice
