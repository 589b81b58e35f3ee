// One line of a batch: what it asks for, and what is written of its answer. The shapes are those of
// OpenAI's Batch API. Pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/gateway/http/message.h"

namespace sluice::gateway {

struct BatchLine {
  std::string custom_id;
  std::string url;   // one of those of BatchEndpoints()
  std::string body;  // JSON, as it was written
};

// "'/v1/chat/completions', ..": the paths that lines may ask for, for people.
std::string BatchEndpointsText();
bool IsBatchEndpoint(absl::string_view path);

// INVALID_ARGUMENT, with the parameter and OpenAI's code (json/object_reader.h), for a line that can't
// be run. `endpoint` is the url that it must have; empty: any of BatchEndpoints().
absl::StatusOr<BatchLine> ReadBatchLine(absl::string_view text, absl::string_view endpoint);

// The lines of a result, each with its end. `run_id` and the line's number from 1 make its id.
std::string AnsweredLine(absl::string_view run_id, int64_t number, const std::string& custom_id,
                         const http::Response& response);
std::string UnansweredLine(absl::string_view run_id, int64_t number, const std::string& custom_id,
                           absl::string_view code, absl::string_view message);

// The number of a line that the functions above wrote for the same `run_id`; nothing for any other
// text, or one that breaks off.
std::optional<int64_t> NumberOfLine(absl::string_view line, absl::string_view run_id);

// Whether `text` may be the beginning of a line that they wrote for it.
bool BeginsAsLine(absl::string_view text, absl::string_view run_id);

}  // namespace sluice::gateway
