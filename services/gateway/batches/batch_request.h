// What a client asks of a new batch. Pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::gateway {

struct BatchRequest {
  std::string input_file_id;
  std::string endpoint;
  std::string completion_window = "24h";
  nlohmann::json metadata;
};

// The body of POST /v1/batches; `text` is what it was parsed from.
absl::StatusOr<BatchRequest> ReadBatchRequest(const nlohmann::json& body, absl::string_view text);

// The completion window, such as "24h" or "7d", in hours; nothing where it is neither, or longer
// than 30 days.
std::optional<int64_t> HoursOf(absl::string_view window);

}  // namespace sluice::gateway
