// A shard as a kind of stage, and the rendezvous of its ranks. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "services/model/adapter_library.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/rows/row_ring.h"
#include "services/rpc/transport.h"
#include "services/security/tls_files.h"
#include "services/shard/rendezvous.h"
#include "services/shard/shard_model.h"
#include "services/shard/shard_session.h"
#include "services/stage/stage.h"
#include "sluice/v1/shard.grpc.pb.h"

namespace sluice {

struct ShardStageOptions {
  ShardPlan plan;
  int row_width = 0;  // ModelConfig's
  absl::Duration step_timeout = absl::InfiniteDuration();
  // Where this rank's communicator listens for ranks on other hosts: an address, or an interface
  // that takes its place where set.
  std::string communicator_address = "127.0.0.1";
  std::string communicator_interface;
  // Ranks on other hosts are met over TLS where these files are complete, in plaintext otherwise,
  // which off loopback needs `trusted_network`.
  TlsFiles tls;
  // Plaintext in any case.
  bool trusted_network = false;
};

class ShardStage final : public Stage, public v1::RendezvousService::CallbackService {
 public:
  // Borrows all but the options.
  ShardStage(ShardStageOptions options, ShardModel* model, AdapterLibrary* adapters,
             Backend* backend, Dialer* dialer);

  Role role() const override { return Role::kShard; }
  absl::StatusOr<std::shared_ptr<StageSession>> MakeSession(const StageOpening& opening) override;
  void SessionAccepted(const WiringIdentity& wiring) override { rendezvous_.KeepOnly(wiring); }
  void Describe(v1::GetStageInfoResponse& info) const override;

  grpc::ServerUnaryReactor* PutRendezvous(grpc::CallbackServerContext* context,
                                          const v1::PutRendezvousRequest* request,
                                          v1::PutRendezvousResponse* response) override;
  grpc::ServerUnaryReactor* GetRendezvous(grpc::CallbackServerContext* context,
                                          const v1::GetRendezvousRequest* request,
                                          v1::GetRendezvousResponse* response) override;

 private:
  absl::Status CheckOpen(const v1::ShardOpen& open) const;
  absl::StatusOr<JoinRanks> JoinerFor(const v1::ShardOpen& open, const WiringIdentity& wiring);

  const ShardStageOptions options_;
  ShardModel& model_;
  AdapterLibrary& adapters_;  // touched by the worker's thread alone, as the ring
  Backend& backend_;
  Dialer& dialer_;
  RendezvousTable rendezvous_;
  RowRing ring_;  // touched by the worker's thread alone, as the clock
  StepClock clock_;
};

}  // namespace sluice
