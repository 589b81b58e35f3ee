// Owner and cost of a call's work as gRPC metadata, between processes of a pipeline. The public API
// does not accept them.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include "absl/time/time.h"
#include "services/work/work_owner.h"

namespace sluice {

// The caller's side: says whom the call is for and what it may cost; reads what it cost once it has
// ended.
void SetWork(const WorkFor& work, grpc::ClientContext& context);
absl::Duration WorkOf(const grpc::ClientContext& context);

// The server's side. A call that names no owner is for the tenant "" with weight 1.
WorkOwner WorkOwnerOf(const grpc::CallbackServerContext& context);
// What the call may take; forever where it names nothing.
absl::Duration WorkBudgetOf(const grpc::CallbackServerContext& context);
// Before the call is finished, with whatever status.
void SetWork(absl::Duration work, grpc::CallbackServerContext& context);

}  // namespace sluice
