// The gRPC face of a shard: decodes, hands to a session, encodes. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "services/model/identity.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/rows/row_ring.h"
#include "services/rpc/transport.h"
#include "services/security/tls_files.h"
#include "services/shard/rendezvous.h"
#include "services/shard/shard_model.h"
#include "services/shard/shard_session.h"
#include "services/stage/activations.h"
#include "services/stage/stage_worker.h"
#include "sluice/v1/shard.grpc.pb.h"

namespace sluice {

struct ShardServiceOptions {
  ServedModel model;
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

class ShardService final : public v1::ShardService::CallbackService {
 public:
  // Borrows all but the options; without `progress` steps are not watched.
  ShardService(ShardServiceOptions options, ShardModel* model, Backend* backend, Dialer* dialer,
               ProgressWatch* progress = nullptr);

  // Served beside this one: where the stage before sends its rows.
  grpc::Service* activations() { return &receiver_; }

  grpc::ServerBidiReactor<v1::ShardRunRequest, v1::ShardRunResponse>* Run(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::GetShardInfoRequest* request,
                                    v1::GetShardInfoResponse* response) override;
  grpc::ServerUnaryReactor* PutRendezvous(grpc::CallbackServerContext* context,
                                          const v1::PutRendezvousRequest* request,
                                          v1::PutRendezvousResponse* response) override;
  grpc::ServerUnaryReactor* GetRendezvous(grpc::CallbackServerContext* context,
                                          const v1::GetRendezvousRequest* request,
                                          v1::GetRendezvousResponse* response) override;

 private:
  absl::StatusOr<std::shared_ptr<ShardSession>> Open(const std::string& orchestrator,
                                                     const v1::ShardOpen& open,
                                                     ShardSession::Stream& stream);
  absl::Status CheckOpen(const v1::ShardOpen& open) const;
  absl::StatusOr<JoinRanks> JoinerFor(const v1::ShardOpen& open, const WiringIdentity& wiring);

  const ShardServiceOptions options_;
  ShardModel* const model_;
  Backend* const backend_;
  Dialer* const dialer_;
  RendezvousTable rendezvous_;
  ActivationsReceiver receiver_;
  RowRing ring_;  // touched by the worker's thread alone
  std::atomic<uint64_t> num_steps_ = 0;
  StepClock clock_;
  StageWorker worker_;  // last: its thread uses what is above
};

}  // namespace sluice
