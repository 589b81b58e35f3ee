// The embedding service as a whole: loads the model's table and serves it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/model_server/model_server.h"
#include "services/rpc/transport.h"

namespace sluice {

// Borrows the dialer, with which it reaches the next stage. Errors of loading and of Server::Start.
absl::StatusOr<std::unique_ptr<ModelServer>> StartEmbeddingServer(const ModelServerOptions& options,
                                                                  Dialer* dialer);

}  // namespace sluice
