// Checks a request's beams and translates them for the engine. Pure functions; statuses as in
// request_check.h.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/engine/request.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// REQUIRES: the request has beams, and its sampling options have passed their own check.
absl::Status CheckBeams(const v1::GenerateRequest& request, const ModelDescription& model);

// Turns a request that draws into one that searches. REQUIRES: CheckBeams; `into` has all else that
// the request says.
void SetBeams(const v1::GenerateRequest& request, const ModelDescription& model,
              EngineRequest& into);

}  // namespace sluice
