// Texts that sampling options name, as the tokens that options in plans name. Thread-safe; nothing
// blocks.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "orchestrator/text/request_context.h"
#include "orchestrator/text/tokenizer_client.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// Calls back with the request's sampling options, joined by the tokens of its bad_words and
// dry_breakers as generation.proto says; at once where it has none. The tokenizer's statuses. It is
// borrowed; what is under way is dropped when the caller leaves.
void ResolveWords(const v1::GenerateRequest& request, TokenizerClient* tokenizer,
                  const RequestContext& context,
                  std::function<void(absl::StatusOr<v1::SamplingOptions>)> callback);

}  // namespace sluice
