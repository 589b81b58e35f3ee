// KvEventService over gRPC: admits operators, and has the engine send them what it publishes.
// Thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "orchestrator/api/admission.h"
#include "orchestrator/api/kv_event_stream.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/tenants/tenant_book.h"
#include "services/listener/connection_guard.h"
#include "services/security/authenticator.h"
#include "sluice/v1/kv_events.grpc.pb.h"

namespace sluice {

class KvEventService final : public v1::KvEventService::Service {
 public:
  // Calls at a time.
  static constexpr size_t kMostCalls = 64;

  // Borrows all; `authenticator` and `guard` may be null, as GenerationService's.
  KvEventService(Engine* engine, const TenantBook* tenants, const Authenticator* authenticator,
                 ConnectionGuard* guard);

  // Ends all calls; none begins from now on.
  void Drain();

 private:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;
  Reactor* KvEvents(grpc::CallbackServerContext* context);
  // Whether the caller may know what is cached for all tenants.
  absl::Status Check(const grpc::CallbackServerContext& context) const;
  absl::Status Begin(const std::shared_ptr<KvEventStream::Writer>& writer);

  Engine* const engine_;
  const TenantBook* const tenants_;
  const Admission admission_;

  absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<KvEventStream::Writer>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
