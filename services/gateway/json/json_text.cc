#include "services/gateway/json/json_text.h"

#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

std::atomic<uint64_t> max_value_bytes{std::numeric_limits<uint64_t>::max()};

// What values take in memory, with what the allocator adds and vectors keep for their growth.
constexpr uint64_t kElementBytes = 32;
constexpr uint64_t kMemberBytes = 128;
constexpr uint64_t kContainerBytes = 64;

// Nesting and values are counted before anything is built: whatever walks a value may recurse.
absl::Status CheckSize(absl::string_view text) {
  std::array<bool, kMaxJsonDepth> is_object{};  // by level
  int depth = 0;
  uint64_t bytes = 0;
  const uint64_t most = max_value_bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
    } else if (c == '[' || c == '{') {
      if (depth == kMaxJsonDepth) {
        return absl::InvalidArgumentError(
            absl::StrCat("the JSON nests deeper than ", kMaxJsonDepth, " levels at byte ", i));
      }
      is_object[depth++] = c == '{';
      bytes += kContainerBytes + (c == '{' ? kMemberBytes : kElementBytes);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == ',') {
      bytes += depth > 0 && is_object[depth - 1] ? kMemberBytes : kElementBytes;
    }
    if (bytes > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("the JSON has more values than this server's memory allows, at byte ", i));
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

void SetMaxJsonValueBytes(uint64_t bytes) { max_value_bytes = bytes; }

absl::StatusOr<json> ParseJson(absl::string_view text) {
  if (absl::Status status = CheckSize(text); !status.ok()) return status;
  json value = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return ParseError(text);
  return value;
}

std::string ToJson(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace sluice::gateway
