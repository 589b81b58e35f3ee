// Checks what clients send and translates it for the engine. Pure functions; everything refused is
// INVALID_ARGUMENT naming field, value and what is accepted.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/engine/request.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// Refuses fields that this server does not know: better an error than an option silently ignored.
absl::Status CheckKnownFields(const google::protobuf::Message& message);

// Everything but the prompt's tokens.
absl::Status CheckGenerate(const v1::GenerateRequest& request, const ModelDescription& model);
absl::Status CheckScore(const v1::ScoreRequest& request, const ModelDescription& model);
// The options as they are joined with the model's own.
absl::Status CheckSampling(const v1::SamplingOptions& sampling, const ModelDescription& model);

// Whether a prompt of `num_tokens`, of encoder-decoders what the text begins with, and the max_tokens asked for, fit the model's context.
absl::Status CheckLength(const v1::GenerateRequest& request, int64_t num_tokens,
                         const ModelDescription& model);
// REQUIRES: an encoder-decoder.
absl::Status CheckSourceLength(int64_t num_tokens, const ModelDescription& model);
absl::Status CheckScoreLength(int64_t num_tokens, const ModelDescription& model);

// "prompt" or another name of the field, for messages.
absl::Status CheckTokenIds(absl::Span<const int32_t> token_ids, const ModelDescription& model,
                           const char* field);

// REQUIRES: the checks above have passed. `random_seed` is used where the request has none.
EngineRequest EngineRequestFrom(const v1::GenerateRequest& request, const ModelDescription& model,
                                std::vector<int32_t> prompt, uint64_t random_seed);

}  // namespace sluice
