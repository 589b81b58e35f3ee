#include "services/model/json_fields.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "services/model/regular_file.h"
#include "services/model/stand_in.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr size_t kMaxDepth = 64;

// "line 3, column 7" of the byte at `offset`.
std::string PositionText(const std::string& text, size_t offset) {
  const std::string before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0
  return absl::StrCat("line ", line, ", column ", before.size() - line_start + 1);
}

// The reason alone: nlohmann-json begins its messages with "[json.exception...] parse error at
// line 1, column 2: ".
std::string ReasonText(const json::exception& error) {
  absl::string_view reason = error.what();
  if (const size_t start = reason.find("] "); start != reason.npos) reason.remove_prefix(start + 2);
  if (const size_t start = reason.find(": "); start != reason.npos) reason.remove_prefix(start + 2);
  // Bytes of the file are spelled out; the quotes around them are the parser's.
  return absl::StrReplaceAll(absl::CHexEscape(reason.substr(0, 200)),
                             {{"\\'", "'"}, {"\\\"", "\""}});
}

// Reads a text event by event and stops at the first thing wrong with it, so that a hostile file
// costs no more memory than its own keys. Refuses what nlohmann-json's parser lets pass: a key
// given twice, and nesting without bound. Its member functions are that library's SAX interface.
class StrictCheck {
 public:
  explicit StrictCheck(const std::string& text) : text_(text) {}

  const std::string& problem() const { return problem_; }

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(json::number_integer_t) { return true; }
  bool number_unsigned(json::number_unsigned_t) { return true; }
  bool number_float(json::number_float_t, const json::string_t&) { return true; }
  bool string(json::string_t&) { return true; }
  bool binary(json::binary_t&) { return true; }
  bool start_object(size_t) { return Enter(); }
  bool start_array(size_t) { return Enter(); }
  bool end_object() { return Leave(); }
  bool end_array() { return Leave(); }

  bool key(json::string_t& name) {
    if (open_keys_.back().insert(name).second) return true;
    problem_ = absl::StrCat("the key \"", absl::Utf8SafeCHexEscape(name), "\" is there twice");
    return false;
  }

  bool parse_error(size_t position, const std::string&, const json::exception& error) {
    const size_t offset = position > 0 ? position - 1 : 0;
    problem_ = absl::StrCat("not JSON at ", PositionText(text_, offset), ": ", ReasonText(error));
    return false;
  }

 private:
  bool Enter() {
    open_keys_.emplace_back();
    if (open_keys_.size() <= kMaxDepth) return true;
    problem_ = absl::StrCat("nested deeper than ", kMaxDepth, " levels");
    return false;
  }

  bool Leave() {
    open_keys_.pop_back();
    return true;
  }

  const std::string& text_;
  std::vector<absl::flat_hash_set<std::string>> open_keys_;  // of every open object or array
  std::string problem_;
};

// The value, if it is an integer from `min` to `max`, as 256 or as 256.0.
std::optional<int> IntIn(const json& value, int min, int max) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    const bool fits = number >= min && number <= max && number == static_cast<int>(number);
    return fits ? std::optional(static_cast<int>(number)) : std::nullopt;
  }
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT32_MAX) return std::nullopt;
  const int64_t number = value.get<int64_t>();
  if (number < min || number > max) return std::nullopt;
  return static_cast<int>(number);
}

}  // namespace

absl::StatusOr<json> ParseJson(const std::string& text, const std::string& source) {
  StrictCheck check(text);
  if (!json::sax_parse(text, &check)) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", check.problem()));
  }
  return json::parse(text);
}

std::string PathIn(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

namespace {

// A link that leads nowhere is no missing file: what others do without must not go unread.
absl::Status MissingFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  if (error) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": is a link to ", target.string(), ", which is not there"));
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (absl::IsNotFound(file.status())) return MissingFile(path);
  if (!file.ok()) return file.status();
  if (file->size_bytes() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has ", file->size_bytes(),
                                                   " bytes; accepted: at most ", kMaxFileBytes));
  }
  std::string contents(file->size_bytes(), '\0');
  size_t filled = 0;
  while (filled < contents.size()) {
    const ssize_t got = read(file->fd(), contents.data() + filled, contents.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path);
    if (got == 0) break;  // it has become shorter
    filled += static_cast<size_t>(got);
  }
  contents.resize(filled);
  if (absl::Status real = CheckIsNoStandIn(contents, path); !real.ok()) return real;
  return contents;
}

std::string ValueText(const json& value) {
  constexpr size_t kMaxLength = 60;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kMaxLength) text = text.substr(0, kMaxLength) + "...";
  return text;
}

JsonFields::JsonFields(std::string source, const json& object, std::string prefix)
    : source_(std::move(source)), prefix_(std::move(prefix)), object_(&object) {
  if (!object.is_object()) {
    const std::string what = prefix_.empty() ? "the file" : prefix_.substr(0, prefix_.size() - 1);
    Fail(absl::StrCat(what, " holds ", ValueText(object), "; accepted: a JSON object"));
  }
}

const json* JsonFields::Get(const std::string& name) const {
  if (!object_->is_object()) return nullptr;
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::IsNull(const std::string& name) const {
  return object_->is_object() && object_->contains(name) && !Has(name);
}

int JsonFields::Int(const std::string& name, int min, int max) {
  if (status_.ok() && !Has(name)) {
    Fail(absl::StrCat(prefix_, name, " is missing; accepted: an integer from ", min, " to ", max));
  }
  return OptionalInt(name, min, max).value_or(min);
}

std::optional<int> JsonFields::OptionalInt(const std::string& name, int min, int max) {
  const json* value = Get(name);
  if (value == nullptr) return std::nullopt;
  if (const std::optional<int> number = IntIn(*value, min, max)) return number;
  Reject(name, absl::StrCat("an integer from ", min, " to ", max));
  return std::nullopt;
}

std::optional<double> JsonFields::NumberAbove(const std::string& name, double above, double max) {
  return Number(name, above, max, /*open=*/true);
}

std::optional<double> JsonFields::NumberAtLeast(const std::string& name, double min, double max) {
  return Number(name, min, max, /*open=*/false);
}

std::optional<double> JsonFields::Number(const std::string& name, double min, double max,
                                         bool open) {
  const json* value = Get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const double number = value->get<double>();
    if ((open ? number > min : number >= min) && number <= max) return number;
  }
  Reject(name, absl::StrCat("a number ", open ? "above " : "of at least ", min, ", at most ", max));
  return std::nullopt;
}

std::optional<bool> JsonFields::Bool(const std::string& name) {
  const json* value = Get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Reject(name, "true or false");
  return std::nullopt;
}

bool JsonFields::RequiredBool(const std::string& name) {
  const std::optional<bool> value = Bool(name);
  if (!value.has_value()) Reject(name, "true or false");
  return value.value_or(false);
}

std::optional<std::string> JsonFields::String(const std::string& name) {
  const json* value = Get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Reject(name, "a string");
  return std::nullopt;
}

std::string JsonFields::RequiredString(const std::string& name) {
  const std::optional<std::string> value = String(name);
  if (!value.has_value()) Reject(name, "a string");
  return value.value_or("");
}

std::optional<std::vector<int>> JsonFields::IntOrList(const std::string& name, int min, int max) {
  const json* value = Get(name);
  if (value == nullptr) return std::nullopt;
  const json list = value->is_array() ? *value : json::array({*value});
  std::vector<int> numbers;
  for (const json& item : list) {
    const std::optional<int> number = IntIn(item, min, max);
    if (!number.has_value()) {
      Reject(name, absl::StrCat("an integer from ", min, " to ", max, " or a list of them"));
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

void JsonFields::Reject(const std::string& name, const std::string& accepted,
                        absl::StatusCode code) {
  const json* value = Get(name);
  Fail(absl::StrCat(prefix_, name, " is ", value == nullptr ? "missing" : ValueText(*value),
                    "; accepted: ", accepted),
       code);
}

void JsonFields::Fail(const std::string& message, absl::StatusCode code) {
  if (status_.ok()) status_ = absl::Status(code, absl::StrCat(source_, ": ", message));
}

JsonFields JsonFields::Inner(const std::string& name) const {
  return JsonFields(source_, *Get(name), absl::StrCat(prefix_, name, "."));
}

void JsonFields::Adopt(const JsonFields& inner) {
  if (status_.ok()) status_ = inner.status_;
}

}  // namespace sluice
