// JSON texts from outside.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::gateway {

// The deepest nesting of arrays and objects that is taken. Tools' schemas are the deepest that
// clients send, and those stay below 20.
constexpr int kMaxJsonDepth = 64;

// INVALID_ARGUMENT for what is no JSON (with the offset), not UTF-8, or nested too deep.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text);

// Compact. What is not UTF-8 becomes U+FFFD.
std::string ToJson(const nlohmann::json& value);

}  // namespace sluice::gateway
