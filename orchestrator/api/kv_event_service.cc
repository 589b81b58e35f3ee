#include "orchestrator/api/kv_event_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "orchestrator/api/request_check.h"
#include "services/messages/raw_message.h"

namespace sluice {

KvEventService::KvEventService(Engine* engine, const TenantBook* tenants,
                               const Authenticator* authenticator, ConnectionGuard* guard)
    : engine_(engine), tenants_(tenants), admission_(authenticator, guard) {
  // On the wire a call with one request is a stream of one message.
  MarkMethodStreamed(0, nullptr);
  MarkMethodRawCallback(
      0, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
             [this](grpc::CallbackServerContext* context) { return KvEvents(context); }));
}

absl::Status KvEventService::Check(const grpc::CallbackServerContext& context) const {
  const absl::StatusOr<std::string> tenant = admission_.TenantOf(context);
  if (!tenant.ok()) return tenant.status();
  if (!admission_.asks_for_proof() || tenants_->SeesAllRequests(*tenant)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("KvEvents is for operators: tenant ", *tenant,
                   " does not have sees_all_requests in the rules of tenants"));
}

absl::Status KvEventService::Begin(const std::shared_ptr<KvEventStream::Writer>& writer) {
  absl::MutexLock lock(&mutex_);
  if (draining_) return absl::UnavailableError("the orchestrator is shutting down");
  std::erase_if(calls_, [](const auto& call) { return call.expired(); });
  if (calls_.size() >= kMostCalls) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KvEvents has ", calls_.size(), " callers, as many as it serves"));
  }
  calls_.push_back(writer);
  return absl::OkStatus();
}

void KvEventService::Drain() {
  std::vector<std::weak_ptr<KvEventStream::Writer>> calls;
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    calls = calls_;
  }
  for (const auto& weak : calls) {
    if (const auto call = weak.lock()) {
      call->Close(absl::UnavailableError("the orchestrator is shutting down"));
    }
  }
}

KvEventService::Reactor* KvEventService::KvEvents(grpc::CallbackServerContext* context) {
  const std::shared_ptr<KvEventStream::Writer> writer = KvEventStream::Writer::Start();
  absl::Status admitted = Check(*context);
  if (!admitted.ok()) {
    writer->Close(admitted);
    return writer.get();
  }
  writer->ReadRequest(
      [this, writer, peer = context->peer()](const absl::StatusOr<grpc::ByteBuffer>& bytes) {
        if (!bytes.ok()) return writer->Close(bytes.status());
        admission_.OnMessage(peer, bytes->Length());
        const auto request = ParseMessage<v1::KvEventsRequest>(*bytes, {.bytes = 1 << 10});
        absl::Status status = request.status();
        if (status.ok()) status = CheckKnownFields(*request);
        if (status.ok()) status = Begin(writer);
        if (!status.ok()) return writer->Close(status);
        auto stream = std::make_shared<KvEventStream>(writer, *request);
        writer->OnCancelCall([this, stream] { engine_->UnsubscribeFromKvEvents(stream); });
        engine_->SubscribeToKvEvents(std::move(stream));
      });
  return writer.get();
}

}  // namespace sluice
