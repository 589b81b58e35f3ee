// Calls of EmbedService: the embeddings of several texts, and how well documents answer a query.
#pragma once

#include "absl/status/statusor.h"
#include "orchestrator/api/text_call.h"
#include "services/common/steady_time.h"
#include "sluice/v1/embed.pb.h"

namespace sluice {

// Each answers `call` with what `request` asks for, or with why there is none. To be called once.
void StartEmbed(const TextCallContext& context, const absl::StatusOr<v1::EmbedRequest>& request,
                SteadyTime deadline, UnaryCall* call);
void StartRerank(const TextCallContext& context, const absl::StatusOr<v1::RerankRequest>& request,
                 SteadyTime deadline, UnaryCall* call);

}  // namespace sluice
