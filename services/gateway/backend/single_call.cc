#include "services/gateway/backend/single_call.h"

#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <utility>

#include "services/common/status.h"

namespace sluice::gateway {
namespace {

// Kept alive by gRPC until it is done. At most one event is read ahead of what was handled, so that
// gRPC's flow control holds the server's stream.
class SingleCall final : public Call,
                         public grpc::ClientReadReactor<v1::GenerateResponse>,
                         public std::enable_shared_from_this<SingleCall> {
 public:
  SingleCall(Backend& backend, http::Loop& loop, v1::GenerateRequest request,
             std::weak_ptr<CallListener> listener)
      : backend_(backend),
        loop_(loop),
        request_(std::move(request)),
        listener_(std::move(listener)) {}

  // False where no call may begin any more.
  bool Start(v1::GenerationService::Stub& stub, const Caller& caller) {
    if (!backend_.CallBegins(&context_)) return false;
    self_ = shared_from_this();
    Backend::Prepare(context_, caller);
    stub.async()->Generate(&context_, &request_, this);
    AddHold();  // reads start from the loop
    StartRead(&event_);
    StartCall();
    return true;
  }

  void SetReading(bool reading) override {
    reading_ = reading;
    if (reading && std::exchange(read_is_due_, false)) ReadNext();
  }

  void Cancel() override {
    context_.TryCancel();
    Release();
  }

 private:
  void ReadNext() {
    if (!released_) StartRead(&event_);
  }
  // No more reads.
  void Release() {
    if (!released_.exchange(true)) RemoveHold();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Release();
    loop_.Post([self = shared_from_this()] { self->Handle(); });
  }

  void Handle() {
    const std::shared_ptr<CallListener> listener = listener_.lock();
    if (listener == nullptr) return Release();
    listener->OnEvent(event_);
    if (reading_ || event_.has_finished()) {  // behind which there is nothing but the end
      ReadNext();
    } else {
      read_is_due_ = true;
    }
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<SingleCall> self = std::move(self_);
    loop_.Post([self, status = FromGrpc(status)] {
      if (const auto listener = self->listener_.lock()) listener->OnEnd(status);
    });
    backend_.CallEnds(&context_);
  }

  Backend& backend_;
  http::Loop& loop_;
  const v1::GenerateRequest request_;
  const std::weak_ptr<CallListener> listener_;
  grpc::ClientContext context_;
  v1::GenerateResponse event_;
  bool reading_ = true;
  bool read_is_due_ = false;  // an event was handled while it was not reading
  std::atomic<bool> released_{false};
  std::shared_ptr<SingleCall> self_;
};

}  // namespace

std::shared_ptr<Call> StartSingleCall(Backend& backend, v1::GenerationService::Stub& stub,
                                      const Caller& caller, v1::GenerateRequest request,
                                      std::weak_ptr<CallListener> listener) {
  auto call =
      std::make_shared<SingleCall>(backend, *caller.loop, std::move(request), std::move(listener));
  if (!call->Start(stub, caller)) return nullptr;
  return call;
}

}  // namespace sluice::gateway
