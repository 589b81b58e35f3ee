#include "services/gateway/json/json_text.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

// Nesting is counted before anything is built: whatever walks a value may recurse.
absl::Status CheckDepth(absl::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) {
        return absl::InvalidArgumentError(
            absl::StrCat("the JSON nests deeper than ", kMaxJsonDepth, " levels at byte ", i));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return absl::OkStatus();
}

// Where and why a text is no JSON: nlohmann tells this by an exception alone.
absl::Status ParseError(absl::string_view text) {
  try {
    [[maybe_unused]] const json parsed = json::parse(text.begin(), text.end());
  } catch (const json::parse_error& error) {
    const bool bad_utf8 = absl::string_view(error.what()).find("UTF-8") != absl::string_view::npos;
    return absl::InvalidArgumentError(absl::StrCat("the body is not valid JSON: byte ", error.byte,
                                                   bad_utf8 ? " is not UTF-8" : " is unexpected"));
  } catch (const json::exception&) {
    return absl::InvalidArgumentError("the body is not valid JSON: a number in it is too large");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text) {
  if (absl::Status status = CheckDepth(text); !status.ok()) return status;
  json value = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return ParseError(text);
  return value;
}

std::string ToJson(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace sluice::gateway
