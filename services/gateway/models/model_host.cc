#include "services/gateway/models/model_host.h"

#include <atomic>
#include <utility>

#include "absl/time/clock.h"
#include "services/common/location_filter.h"
#include "services/common/status.h"

namespace sluice::gateway {
namespace {

constexpr absl::Duration kListTimeout = absl::Seconds(5);
// What reading a large model takes.
constexpr absl::Duration kWakeTimeout = absl::Minutes(2);

}  // namespace

ModelHost::ModelHost(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::ModelHostService::NewStub(channel)) {}

absl::StatusOr<v1::ListModelsResponse> ModelHost::ListNow() const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kListTimeout));
  context.set_wait_for_ready(true);
  v1::ListModelsRequest request;
  request.set_gateway(true);
  v1::ListModelsResponse response;
  const absl::Status status = FromGrpc(stub_->ListModels(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

struct ModelHost::ListCall {
  grpc::ClientContext context;
  v1::ListModelsRequest request;
  v1::ListModelsResponse response;
};

void ModelHost::List(const Caller& caller,
                     std::function<void(absl::StatusOr<v1::ListModelsResponse>)> done) {
  const auto call = std::make_shared<ListCall>();
  call->request.set_authorization(caller.authorization);
  call->context.set_deadline(absl::ToChronoTime(absl::Now() + kListTimeout));
  if (!Begins(&call->context)) return;  // and with it ends the caller's connection
  stub_->async()->ListModels(
      &call->context, &call->request, &call->response,
      [this, call, loop = caller.loop, done = std::move(done)](const grpc::Status& status) {
        loop->Post([call, done, status = LocationFilter().ForClient(FromGrpc(status))] {
          if (!status.ok()) return done(status);
          done(std::move(call->response));
        });
        Ends(&call->context);
      });
}

// A call, which ends where whoever was given its use drops that. Keeps itself alive until then.
class ModelHost::UseCall : public grpc::ClientReadReactor<v1::UseModelResponse>,
                           public std::enable_shared_from_this<UseCall> {
 public:
  using Done = std::function<void(absl::StatusOr<std::shared_ptr<ModelUse>>)>;

  UseCall(ModelHost* host, http::Loop* loop, v1::UseModelRequest request, Done done)
      : host_(*host), loop_(*loop), request_(std::move(request)), done_(std::move(done)) {}

  void Start() {
    if (!host_.Begins(&context_)) return;
    self_ = shared_from_this();
    loop_.After(kWakeTimeout, [weak = weak_from_this()] {
      const std::shared_ptr<UseCall> call = weak.lock();
      if (call != nullptr) call->Answer(absl::UnavailableError("the model is still starting"));
    });
    host_.stub_->async()->UseModel(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    Answer(std::make_shared<Held>(shared_from_this()));
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    const absl::Status told = LocationFilter().ForClient(FromGrpc(status));
    Answer(told.ok() ? absl::UnavailableError("the host of models is shutting down") : told);
    host_.Ends(&context_);
    self_.reset();
  }

 private:
  struct Held : ModelUse {
    explicit Held(std::shared_ptr<UseCall> held) : call(std::move(held)) {}
    ~Held() override { call->context_.TryCancel(); }
    const std::shared_ptr<UseCall> call;
  };

  // The first answer counts. Without a use the call has no reason to go on.
  void Answer(absl::StatusOr<std::shared_ptr<ModelUse>> use) {
    if (is_answered_.exchange(true)) return;
    if (!use.ok()) context_.TryCancel();
    loop_.Post([done = std::move(done_), use = std::move(use)] { done(use); });
  }

  ModelHost& host_;
  http::Loop& loop_;
  const v1::UseModelRequest request_;
  v1::UseModelResponse response_;
  grpc::ClientContext context_;
  std::atomic<bool> is_answered_{false};
  Done done_;
  std::shared_ptr<UseCall> self_;  // until the call has ended
};

void ModelHost::Use(const Caller& caller, const std::string& model, UseCall::Done done) {
  v1::UseModelRequest request;
  request.set_name(model);
  request.set_authorization(caller.authorization);
  std::make_shared<UseCall>(this, caller.loop, std::move(request), std::move(done))->Start();
}

bool ModelHost::Begins(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  if (!stopping_) calls_.insert(context);
  return !stopping_;
}

void ModelHost::Ends(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(context);
}

void ModelHost::Shutdown() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  for (grpc::ClientContext* context : calls_) context->TryCancel();
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.empty(); };
  mutex_.Await(absl::Condition(&idle));
}

}  // namespace sluice::gateway
