// JSON texts from outside.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::gateway {

// The deepest nesting of arrays and objects that is taken. Tools' schemas are the deepest that
// clients send, and those stay below 20.
constexpr int kMaxJsonDepth = 64;

// The most bytes that the value of a text may take once it is parsed, by an estimate that is seldom
// too low: a text of 16 MiB can become a value of a gigabyte. Set once, before any text is parsed;
// without a limit until then.
void SetMaxJsonValueBytes(uint64_t bytes);

// INVALID_ARGUMENT for what is no JSON (with the offset), not UTF-8, nested too deep, or of too many
// values.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text);

// Compact. What is not UTF-8 becomes U+FFFD.
std::string ToJson(const nlohmann::json& value);

}  // namespace sluice::gateway
