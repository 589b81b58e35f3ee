#include "services/tokenizer/jinja/brace_format.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/tokenizer/jinja/format_spec.h"
#include "services/tokenizer/jinja/operators.h"
#include "services/tokenizer/jinja/python_text.h"

namespace sluice::jinja {
namespace {

constexpr int kMaxNesting = 2;

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class BraceFormatter {
 public:
  BraceFormatter(Run& run, const Arguments& arguments) : run_(run), arguments_(arguments) {}

  Text Format(const Text& format, int nesting) {
    Text out;
    const std::string& bytes = format.bytes();
    if (nesting == 0) {
      run_.ValueError("Max string recursion exceeded");
      return out;
    }
    for (size_t at = 0; at < bytes.size() && run_.CheckMemory(out.size());) {
      const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.AppendPart(format, at, brace);
      at = brace + 1;
      if (brace == bytes.size()) break;
      if (at < bytes.size() && bytes[at] == bytes[brace]) {
        out.AppendPart(format, brace, at++);
      } else if (bytes[brace] == '}') {
        run_.ValueError("Single '}' encountered in format string");
      } else {
        at = Field(format, at, nesting, &out);
      }
    }
    return out;
  }

 private:
  // Returns where the field that begins at `begin` ends.
  size_t Field(const Text& format, size_t begin, int nesting, Text* out) {
    const std::string& bytes = format.bytes();
    int depth = 1;
    size_t end = begin;
    for (; end < bytes.size(); ++end) {
      if (bytes[end] == '{') ++depth;
      if (bytes[end] == '}' && --depth == 0) break;
    }
    if (end == bytes.size()) {
      run_.ValueError(begin == end ? "Single '{' encountered in format string"
                                   : "expected '}' before end of string");
      return end;
    }
    const std::string_view field = std::string_view(bytes).substr(begin, end - begin);
    const size_t name_end = std::min(field.find_first_of(":!"), field.size());
    Value value = Lookup(field.substr(0, name_end));
    size_t spec_at = name_end;
    if (spec_at < field.size() && field[spec_at] == '!') {
      value = Converted(value, spec_at + 1 < field.size() ? field[spec_at + 1] : '\0');
      spec_at = std::min(spec_at + 2, field.size());
    }
    if (spec_at < field.size() && field[spec_at] != ':') {
      run_.ValueError("expected ':' after conversion specifier");
    }
    const size_t spec_begin = begin + std::min(spec_at + 1, field.size());
    const Text spec =
        Format(format.Part(spec_begin, end), nesting - 1 + (spec_begin == end ? 1 : 0));
    if (run_.failed()) return end + 1;
    const std::optional<FormatSpec> parsed = ParseFormatSpec(run_, spec.bytes());
    if (parsed.has_value()) out->Append(FormatField(value, spec, *parsed));
    return end + 1;
  }

  Text FormatField(const Value& value, const Text& spec, const FormatSpec& parsed) {
    const bool is_plain = value.IsString() || value.IsNumber();
    if (!is_plain && !spec.empty()) {
      run_.TypeError(
          absl::StrCat("unsupported format string passed to ", TypeName(value), ".__format__"));
    }
    return spec.empty() ? Str(run_, value) : FormatValue(run_, value, parsed);
  }

  Value Converted(const Value& value, char conversion) {
    if (conversion == 's') return run_.String(Str(run_, value));
    if (conversion == 'r' || conversion == 'a') return run_.String(Repr(run_, value));
    return run_.ValueError("Unknown conversion specifier");
  }

  Value Argument(std::string_view name) {
    if (name.empty() || IsNumber(name)) {
      size_t index = name.empty() ? next_++ : 0;
      if (!name.empty() && !absl::SimpleAtoi(std::string(name), &index)) index = SIZE_MAX;
      if (index < arguments_.positional.size()) return arguments_.positional[index];
      return run_.Fail(Error::Kind::kRuntime, "tuple index out of range");
    }
    const Value* value = arguments_.Keyword(name);
    return value != nullptr ? *value : run_.Fail(Error::Kind::kRuntime, ReprString(name));
  }

  Value Lookup(std::string_view field) {
    size_t at = std::min(field.find_first_of(".["), field.size());
    Value value = Argument(field.substr(0, at));
    while (at < field.size() && !run_.failed()) {
      const bool is_item = field[at++] == '[';
      const size_t end =
          std::min(is_item ? field.find(']', at) : field.find_first_of(".[", at), field.size());
      const std::string_view name = field.substr(at, end - at);
      at = is_item ? std::min(end + 1, field.size()) : end;
      value = is_item ? Item(value, name) : GetAttribute(run_, value, name);
    }
    return value;
  }

  Value Item(const Value& value, std::string_view name) {
    int64_t index = 0;
    if (IsNumber(name) && absl::SimpleAtoi(std::string(name), &index)) {
      return GetItem(run_, value, Value::Integer(index));
    }
    return GetItem(run_, value, run_.String(std::string(name)));
  }

  Run& run_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

}  // namespace

Value BraceFormat(Run& run, const Text& format, const Arguments& arguments) {
  BraceFormatter formatter(run, arguments);
  return run.String(formatter.Format(format, kMaxNesting));
}

}  // namespace sluice::jinja
