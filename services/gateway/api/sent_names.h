// Translates error messages about a gRPC request to the parameter names of the HTTP request it was
// made from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace sluice::gateway {

// What an API, or a request of it, calls what others call differently.
struct SentNames {
  std::string prompt = "prompt";
  std::string max_tokens = "max_tokens";
  std::string stop = "stop";
  std::string constraint = "constraint";
  std::string service_tier;  // its value: some set the priority
};

// The status with fields of the gRPC API called by their parameters. Unless it has them already, it
// gets the payloads of json/object_reader.h: the parameter at fault, and the code of a prompt that
// is too long. Statuses that speak of no field stay as they are.
absl::Status AsSent(const absl::Status& status, const SentNames& names = {});

// Why a prompt does not fit into the model's context.
struct ContextOverflow {
  int64_t num_prompt_tokens = 0;
  int64_t max_tokens = 0;  // 0: the prompt alone is too long
  int64_t context = 0;
};
// Nothing for statuses that say something else. The messages are those of orchestrator/api.
std::optional<ContextOverflow> ContextOverflowOf(const absl::Status& status);

// OpenAI's code for it.
constexpr char kContextLengthExceeded[] = "context_length_exceeded";

}  // namespace sluice::gateway
