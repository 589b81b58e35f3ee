// Refusal of a process by an orchestrator, for example because it serves another model. A process
// that was refused and never used ends itself after a while, so that its supervisor shows the
// reason.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/common/steady_time.h"

namespace sluice {

// Metadata of GetInfo and GetStageInfo calls: why the orchestrator could not use what the last one
// answered. Absent where it could.
inline constexpr char kRefusalKey[] = "sluice-refusal-bin";

// What comes of refusals. A pure state machine.
class RefusalWatch {
 public:
  // The process is to end once it has been refused for so long; never where that is 0.
  explicit RefusalWatch(absl::Duration patience) : patience_(patience) {}

  // An orchestrator has asked about the process and said that it can't use it, or not said so.
  // Returns what to say at the end, where it is time to end.
  std::optional<std::string> OnAsked(const std::string& refusal, SteadyTime now);
  // Somebody uses the process: it is of the right model for him, and stays.
  void OnUsed() { used_ = true; }

 private:
  const absl::Duration patience_;
  bool used_ = false;
  std::optional<SteadyTime> since_;  // the first refusal of those without a pause
  SteadyTime last_asked_;
};

// Called with what an orchestrator says in its GetInfo calls ("": nothing), and on any other call
// but gRPC's own. From any thread, one at a time.
struct RefusalHandler {
  std::function<void(const std::string& refusal)> on_asked;
  std::function<void()> on_used;
};

// Sets what this process does about refusals, before its server starts; otherwise nothing.
void SetRefusalHandler(RefusalHandler handler);

// For every server of a service: hears those calls and leaves the others alone.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeRefusalListener();

}  // namespace sluice
