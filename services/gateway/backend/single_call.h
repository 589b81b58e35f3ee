// A call that is one of gRPC's own: for what is too large to go beside others in a session, and for
// orchestrators that know of no sessions.
#pragma once

#include <memory>

#include "services/gateway/backend/backend.h"
#include "services/gateway/backend/call.h"

namespace sluice::gateway {

// Null where the backend is shut down.
std::shared_ptr<Call> StartSingleCall(Backend& backend, v1::GenerationService::Stub& stub,
                                      const Caller& caller, v1::GenerateRequest request,
                                      std::weak_ptr<CallListener> listener);

}  // namespace sluice::gateway
