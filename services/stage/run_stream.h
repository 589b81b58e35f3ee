// The orchestrator's control stream, as every stage serves it: Open makes a session, Execute feeds
// it, the end of the stream closes it.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/stage/plan_link.h"
#include "services/stage/stage_worker.h"

namespace sluice {

// The metadata of a Run call that names its orchestrator: a stage belongs to one at a time.
inline constexpr char kOrchestratorKey[] = "sluice-orchestrator";

// Empty where the caller says none.
std::string OrchestratorOf(const grpc::CallbackServerContext& context);

// Makes the session of a stream, or returns why not.
using OpenSession = std::function<absl::StatusOr<std::shared_ptr<StageSession>>(
    const v1::StageOpen& open, PlanLink::Stream& stream)>;

PlanLink::Stream* ServeRunStream(const grpc::CallbackServerContext& context, OpenSession open);

}  // namespace sluice
