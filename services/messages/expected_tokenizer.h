// The tokenizer that a call expects. The orchestrator sends the digest of its model's tokenizer
// with every call, so that a tokenizer of another model refuses it.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <string>

#include "absl/status/status.h"

namespace sluice {

// Metadata of calls to a TokenizerService: the tokenizer_digest of GetTokenizerInfoResponse that
// the answer has to come from. Absent: any.
inline constexpr char kExpectedTokenizerKey[] = "sluice-expected-tokenizer";

// Names it in a call; not where `digest` is empty.
void ExpectTokenizer(grpc::ClientContext& context, const std::string& digest);

// ABORTED where the call expects another tokenizer than that of `digest`.
absl::Status CheckExpectedTokenizer(const grpc::ServerContextBase& context,
                                    const std::string& digest);

}  // namespace sluice
