#include "clients/cli/model_host_service.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/common/status.h"

namespace sluice {
namespace {

v1::HostedModel::State StateOf(const ModelGroup::Entry& entry) {
  switch (entry.state) {
    case ProcessGroup::State::kStarting:
      return v1::HostedModel::STATE_WAKING;
    case ProcessGroup::State::kRunning:
      return v1::HostedModel::STATE_AWAKE;
    case ProcessGroup::State::kEnding:
      return v1::HostedModel::STATE_ASLEEP;
    case ProcessGroup::State::kEnded:
      break;
  }
  return entry.last_end.ok() ? v1::HostedModel::STATE_ASLEEP : v1::HostedModel::STATE_FAILED;
}

}  // namespace

absl::Status ModelHostService::Check(const std::string& authorization,
                                     const grpc::ServerContextBase& context) const {
  if (authenticator_ == nullptr) return absl::OkStatus();
  std::optional<absl::string_view> shown;
  if (!authorization.empty()) shown = authorization;
  return authenticator_->Admit(shown, context).status();
}

grpc::ServerUnaryReactor* ModelHostService::ListModels(grpc::CallbackServerContext* context,
                                                       const v1::ListModelsRequest* request,
                                                       v1::ListModelsResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const absl::Status known =
      request->gateway() ? absl::OkStatus() : Check(request->authorization(), *context);
  if (known.ok()) {
    for (const ModelGroup::Entry& entry : group_.List()) {
      v1::HostedModel& model = *response->add_models();
      model.set_name(entry.name);
      model.set_endpoint(entry.endpoint);
      model.set_sleeps(entry.sleeps);
      model.set_state(StateOf(entry));
    }
  }
  reactor->Finish(ToGrpc(known));
  return reactor;
}

// One call, whose end is that of the use. Keeps itself alive until gRPC is done with it.
class ModelHostService::Use : public grpc::ServerWriteReactor<v1::UseModelResponse>,
                              public ModelUser {
 public:
  static Use* Begin(ModelGroup& group, const std::string& model, const absl::Status& known) {
    const std::shared_ptr<Use> use(new Use(group));
    use->self_ = use;
    if (known.ok()) {
      group.Enter(model, use);
    } else {
      use->Refuse(known);
    }
    return use.get();
  }

  void Serve() override {
    {
      absl::MutexLock lock(&mutex_);
      if (state_ != State::kWaiting) return;
      state_ = State::kAnswering;
    }
    StartWrite(&response_);
  }

  void Refuse(const absl::Status& why) override {
    {
      absl::MutexLock lock(&mutex_);
      if (state_ != State::kWaiting) return;
      state_ = State::kEnded;
    }
    Finish(ToGrpc(why));
  }

  void OnWriteDone(bool /*ok*/) override {
    {
      absl::MutexLock lock(&mutex_);
      state_ = is_cancelled_ ? State::kEnded : State::kServing;
      if (!is_cancelled_) return;
    }
    Finish(grpc::Status::CANCELLED);
  }

  void OnCancel() override {
    group_.Leave(this);
    {
      absl::MutexLock lock(&mutex_);
      is_cancelled_ = true;
      // What is being answered ends when that has.
      if (state_ == State::kAnswering || state_ == State::kEnded) return;
      state_ = State::kEnded;
    }
    Finish(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    group_.Leave(this);
    self_.reset();
  }

 private:
  enum class State { kWaiting, kAnswering, kServing, kEnded };

  explicit Use(ModelGroup& group) : group_(group) {}

  ModelGroup& group_;
  const v1::UseModelResponse response_;
  std::shared_ptr<Use> self_;  // until OnDone()
  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kWaiting;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

grpc::ServerWriteReactor<v1::UseModelResponse>* ModelHostService::UseModel(
    grpc::CallbackServerContext* context, const v1::UseModelRequest* request) {
  return Use::Begin(group_, request->name(), Check(request->authorization(), *context));
}

}  // namespace sluice
