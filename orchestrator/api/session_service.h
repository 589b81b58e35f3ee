// GenerationSessionService over gRPC: sessions, whose calls GenerationService serves. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "orchestrator/api/generation_service.h"
#include "orchestrator/api/generation_session.h"
#include "sluice/v1/generation_session.grpc.pb.h"

namespace sluice {

class SessionService final : public v1::GenerationSessionService::WithRawCallbackMethod_OpenSession<
                                 v1::GenerationSessionService::Service> {
 public:
  // Borrows `calls`.
  explicit SessionService(GenerationService* calls) : calls_(calls) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* OpenSession(
      grpc::CallbackServerContext* context) override;

  // No session takes calls from now on, and each ends with its last one.
  void Drain();

 private:
  GenerationService* const calls_;

  absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<GenerationSession>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
