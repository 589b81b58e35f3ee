// A kind of stage: embedding, shard, sampler. What all kinds have in common is in StageService.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/security/role.h"
#include "services/stage/activations.h"
#include "services/stage/plan_link.h"
#include "services/stage/stage_worker.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

// An Open for this stage and its model. Everything but the stream is borrowed.
struct StageOpening {
  const v1::StageOpen& open;
  const WiringIdentity& wiring;
  std::shared_ptr<PlanLink::Stream> stream;
  // Where the stage before sends its rows.
  ActivationsReceiver& receiver;
  // To be called after every step.
  std::function<void()> on_step;
};

// Thread-safe.
class Stage {
 public:
  virtual ~Stage() = default;

  // The kind, as `oneof kind` of the stage contract has it.
  virtual Role role() const = 0;
  // Whether rows come in.
  virtual bool TakesRows() const { return true; }

  // Makes the session of an Open; a status ends its stream.
  virtual absl::StatusOr<std::shared_ptr<StageSession>> MakeSession(
      const StageOpening& opening) = 0;
  // The session is the stage's next one.
  virtual void SessionAccepted(const WiringIdentity& /*wiring*/) {}

  // Fills in what StageService does not know.
  virtual void Describe(v1::GetStageInfoResponse& info) const = 0;
};

// The kind of stage that a message is for or from, by its `oneof kind`: StageOpen, StageExecute,
// GetStageInfoResponse. Nothing where it is not set.
template <class Message>
std::optional<Role> StageRoleOf(const Message& message) {
  if (message.has_embedding()) return Role::kEmbedding;
  if (message.has_shard()) return Role::kShard;
  if (message.has_sampler()) return Role::kSampler;
  return std::nullopt;
}

}  // namespace sluice
