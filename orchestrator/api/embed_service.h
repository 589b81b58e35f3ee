// EmbedService over gRPC: its calls, which GenerationService admits and starts. Thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "orchestrator/api/generation_service.h"
#include "sluice/v1/embed.grpc.pb.h"

namespace sluice {

class EmbedService final : public v1::EmbedService::Service {
 public:
  // Borrows `calls`.
  explicit EmbedService(GenerationService* calls);
};

}  // namespace sluice
