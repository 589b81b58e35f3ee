// Deadlines of calls. gRPC takes and gives them as times of the wall clock, but waits by the monotonic one: it converts what it
// is given once, when the call begins, and a server's from the time that is left as the caller says it (`grpc-timeout`). So
// the wall clock may be set while a call is under way, and must not be between here and there: what is kept for longer than
// a statement is a SteadyTime.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/common/steady_time.h"

namespace sluice {

// Of a call that begins at once. One in the infinite future leaves it without a deadline.
inline void SetDeadline(grpc::ClientContext& context, SteadyTime deadline) {
  if (deadline == SteadyTime::InfiniteFuture()) return;
  context.set_deadline(absl::ToChronoTime(absl::Now() + (deadline - SteadyTime::Now())));
}

// Of a call that has just come; infinite where the caller set none.
inline SteadyTime DeadlineOf(const grpc::ServerContextBase& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return SteadyTime::InfiniteFuture();
  return SteadyTime::FromWall(absl::FromChrono(deadline));
}

}  // namespace sluice
