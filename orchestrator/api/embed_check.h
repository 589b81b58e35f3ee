// Checks what clients send to EmbedService, and that the model does what a call asks for. Pure
// functions; what is refused is named with what is accepted.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "orchestrator/api/model_description.h"
#include "sluice/v1/embed.pb.h"

namespace sluice {

// Everything but the texts' tokens. FAILED_PRECONDITION where the model makes no embeddings, else
// INVALID_ARGUMENT.
absl::Status CheckEmbed(const v1::EmbedRequest& request, const ModelDescription& model);

// What a model judges documents by (embed.proto).
enum class RerankKind {
  kPair,     // a classifier's score of query and document
  kCosine,   // the angle between two embeddings
  kYesOrNo,  // which word a decoder would go on with
};

// Nothing where it judges none.
std::optional<RerankKind> RerankKindOf(const ModelDescription& model);

// FAILED_PRECONDITION where the model judges no documents, else INVALID_ARGUMENT.
absl::Status CheckRerank(const v1::RerankRequest& request, const ModelDescription& model);

// FAILED_PRECONDITION where the model generates no text and scores none.
absl::Status CheckGenerates(const ModelDescription& model);

}  // namespace sluice
