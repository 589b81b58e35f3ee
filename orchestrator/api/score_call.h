// One Score call: the log-probabilities of the tokens of one text or of several.
#pragma once

#include "absl/status/statusor.h"
#include "orchestrator/api/text_call.h"
#include "services/common/steady_time.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// Answers `call` with what `request` asks for, or with why there is none. To be called once.
void StartScore(const TextCallContext& context, const absl::StatusOr<v1::ScoreRequest>& request,
                SteadyTime deadline, UnaryCall* call);

}  // namespace sluice
