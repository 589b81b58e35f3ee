#include "services/tokenizer/jinja/percent_format.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/format_spec.h"
#include "services/tokenizer/jinja/python_text.h"
#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Run& run, const Text& format, const Value& values)
      : run_(run), format_(format), bytes_(format.bytes()), values_(values) {}

  Value Format() {
    while (at_ < bytes_.size() && run_.CheckMemory(out_.size())) {
      const size_t percent = std::min(bytes_.find('%', at_), bytes_.size());
      out_.AppendPart(format_, at_, percent);
      at_ = percent;
      if (at_ < bytes_.size()) Conversion();
    }
    const bool has_left = values_.Is(Value::Kind::kTuple) && used_ < values_.items().size();
    const bool is_unused = !values_.Is(Value::Kind::kTuple) && !values_.IsDict() &&
                           !values_.Is(Value::Kind::kList) && used_ == 0;
    if (has_left || (is_unused && !values_.IsUndefined())) {
      return run_.TypeError("not all arguments converted during string formatting");
    }
    return run_.String(std::move(out_));
  }

 private:
  void Conversion() {
    const size_t percent = at_++;
    const std::optional<Value> named = ReadName();
    FormatSpec spec;
    bool is_left = false;
    ReadFlags(&spec, &is_left);
    spec.width = ReadNumber().value_or(0);
    if (Peek() == '.') {
      ++at_;
      spec.precision = ReadNumber().value_or(0);
    }
    while (Peek() == 'l' || Peek() == 'h' || Peek() == 'L') ++at_;
    if (run_.failed()) return;
    if (at_ == bytes_.size()) {
      run_.ValueError("incomplete format");
      return;
    }
    const char type = bytes_[at_++];
    if (type == '%') return out_.AppendPart(format_, percent, percent + 1);
    if (is_left) {
      spec.align = '<';
      spec.fill = ' ';
    }
    Convert(named.has_value() ? *named : NextValue(), type, spec);
  }

  char Peek() const { return at_ < bytes_.size() ? bytes_[at_] : '\0'; }

  std::optional<Value> ReadName() {
    if (Peek() != '(') return std::nullopt;
    const size_t close = bytes_.find(')', at_);
    if (close == std::string::npos) return run_.ValueError("incomplete format key");
    const std::string name = bytes_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    if (!values_.IsDict()) return run_.TypeError("format requires a mapping");
    const Value* found = values_.dict().Find(std::string_view(name));
    if (found == nullptr) return run_.Fail(Error::Kind::kRuntime, ReprString(name));
    ++used_;
    return *found;
  }

  void ReadFlags(FormatSpec* spec, bool* is_left) {
    for (;; ++at_) {
      switch (Peek()) {
        case '-':
          *is_left = true;
          break;
        case '+':
          spec->sign = '+';
          break;
        case ' ':
          if (spec->sign != '+') spec->sign = ' ';
          break;
        case '#':
          spec->is_alternate = true;
          break;
        case '0':
          spec->fill = '0';
          spec->align = '=';
          break;
        default:
          return;
      }
    }
  }

  std::optional<Int> ReadNumber() {
    if (Peek() == '*') {
      ++at_;
      const Value value = NextValue();
      if (value.IsInt()) return value.int_value();
      run_.TypeError("* wants int");
      return std::nullopt;
    }
    std::optional<Int> number;
    for (; Peek() >= '0' && Peek() <= '9'; ++at_) {
      if (number.value_or(0) < Int{1} << 60) number = number.value_or(0) * 10 + (Peek() - '0');
    }
    return number;
  }

  Value NextValue() {
    const bool is_tuple = values_.Is(Value::Kind::kTuple);
    if (used_ >= (is_tuple ? values_.items().size() : 1)) {
      return run_.TypeError("not enough arguments for format string");
    }
    const size_t index = used_++;
    return is_tuple ? values_.items()[index] : values_;
  }

  void Convert(const Value& value, char type, FormatSpec spec) {
    if (run_.failed()) return;
    switch (type) {
      case 's':
      case 'r':
      case 'a':
        if (spec.fill == '0') spec.fill = ' ';
        if (spec.align != '<') spec.align = '>';
        return out_.Append(
            FormatText(run_, type == 's' ? Str(run_, value) : Repr(run_, value), spec));
      case 'c':
        return ConvertChar(value, spec);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return ConvertInt(value, type, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        spec.type = type;
        if (value.IsNumber()) return out_.Append(FormatValue(run_, value, spec));
        run_.TypeError(absl::StrCat("must be real number, not ", TypeName(value)));
        return;
      default:
        run_.ValueError(absl::StrCat("unsupported format character '", std::string(1, type),
                                     "' (0x", absl::Hex(static_cast<unsigned char>(type)),
                                     ") at index ", at_ - 1));
    }
  }

  void ConvertChar(const Value& value, FormatSpec spec) {
    if (spec.align != '<') spec.align = '>';
    if (value.IsInt()) {
      spec.type = 'c';
      return out_.Append(FormatValue(run_, value, spec));
    }
    if (value.IsString() && CountChars(value.bytes()) == 1) {
      return out_.Append(FormatText(run_, value.text(), spec));
    }
    run_.TypeError("%c requires int or char");
  }

  void ConvertInt(const Value& value, char type, FormatSpec spec) {
    const bool is_decimal = type == 'd' || type == 'i' || type == 'u';
    if (!value.IsNumber() || (!is_decimal && !value.IsInt())) {
      run_.TypeError(absl::StrCat("%", std::string(1, type),
                                  " format: ", is_decimal ? "a real number" : "an integer",
                                  " is required, not ", TypeName(value)));
      return;
    }
    const double number = value.AsDouble();
    if (!value.IsInt() && !(std::fabs(number) < 1e37)) {
      run_.ValueError("cannot convert float to integer");
      return;
    }
    spec.type = is_decimal ? 'd' : type;
    const Int whole = value.IsInt() ? value.int_value() : static_cast<Int>(number);
    const std::optional<Int> digits = spec.precision;
    spec.precision.reset();
    Value integer = Value::Integer(whole, value.IsUntrustedNumber());
    if (!digits.has_value()) return out_.Append(FormatValue(run_, integer, spec));
    FormatSpec inner = spec;  // the digits alone, with zeros
    inner.fill = '0';
    inner.align = '=';
    inner.width = *digits + (whole < 0 || spec.sign != '-' ? 1 : 0);
    const Text text = FormatValue(run_, integer, inner);
    if (spec.align != '<') spec.align = '>';
    spec.fill = ' ';
    out_.Append(FormatText(run_, text, spec));
  }

  Run& run_;
  const Text& format_;
  const std::string& bytes_;
  const Value& values_;
  size_t at_ = 0;
  size_t used_ = 0;
  Text out_;
};

}  // namespace

Value PercentFormat(Run& run, const Text& format, const Value& values) {
  return PercentFormatter(run, format, values).Format();
}

}  // namespace sluice::jinja
