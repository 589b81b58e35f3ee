// The shard service as a whole: loads its slice of the model and serves it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/model/shard_plan.h"
#include "services/model_server/model_server.h"
#include "services/rpc/transport.h"
#include "services/shard/shard_model.h"

namespace sluice {

struct ShardServerOptions {
  ModelServerOptions server;
  ShardPlacement placement;
  ShardModelOptions shard;  // but for its weights, which are those of `server`
  // As in ShardStageOptions.
  std::string communicator_address = "127.0.0.1";
  std::string communicator_interface;
  bool trusted_network = false;
};

// Borrows the dialer, with which it reaches the next stage. Errors of MakeShardPlan, loading and
// Server::Start.
absl::StatusOr<std::unique_ptr<ModelServer>> StartShardServer(const ShardServerOptions& options,
                                                              Dialer* dialer);

}  // namespace sluice
