#include "orchestrator/api/session_service.h"

#include <utility>

namespace sluice {

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SessionService::OpenSession(
    grpc::CallbackServerContext* context) {
  std::shared_ptr<GenerationSession> session = GenerationSession::Start(
      [this, context](const v1::StartCall& start, std::shared_ptr<CallStream> stream) {
        calls_->StartCall(*context, start, std::move(stream));
      },
      [this, peer = context->peer()](size_t bytes) { calls_->admission().OnMessage(peer, bytes); });
  absl::MutexLock lock(&mutex_);
  if (draining_) session->Drain();
  std::erase_if(sessions_, [](const auto& weak) { return weak.expired(); });
  sessions_.push_back(session);
  return session.get();
}

void SessionService::Drain() {
  std::vector<std::weak_ptr<GenerationSession>> sessions;
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    sessions.swap(sessions_);
  }
  for (const auto& weak : sessions) {
    if (const std::shared_ptr<GenerationSession> session = weak.lock()) session->Drain();
  }
}

}  // namespace sluice
