#include "services/rpc/refusal.h"

#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace sluice {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// An orchestrator that is told no asks again within half a second; one that has gone asks no more.
constexpr absl::Duration kLongestSilence = absl::Seconds(10);

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
RefusalHandler* handler ABSL_GUARDED_BY(mutex) = nullptr;  // lives as long as the process

class GetInfoListener final : public Interceptor {
 public:
  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      const auto* metadata = methods->GetRecvInitialMetadata();
      const auto found = metadata->find(kRefusalKey);
      absl::MutexLock lock(&mutex);
      if (handler != nullptr) {
        handler->on_asked(found == metadata->end()
                              ? ""
                              : std::string(found->second.data(), found->second.size()));
      }
    }
    methods->Proceed();
  }
};

class ListenerFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // Of streams nothing but their beginning is looked at: what flows in them stays as fast as it is.
  Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    const absl::string_view method = info->method();
    if (absl::EndsWith(method, "/GetInfo") || absl::EndsWith(method, "/GetStageInfo")) {
      return new GetInfoListener;
    }
    if (!absl::StartsWith(method, "/grpc.")) {
      absl::MutexLock lock(&mutex);
      if (handler != nullptr) handler->on_used();
    }
    return nullptr;
  }
};

}  // namespace

std::optional<std::string> RefusalWatch::OnAsked(const std::string& refusal, SteadyTime now) {
  if (refusal.empty()) {
    since_.reset();
    return std::nullopt;
  }
  if (used_ || patience_ == absl::ZeroDuration()) return std::nullopt;
  if (!since_.has_value() || now - last_asked_ > kLongestSilence) since_ = now;
  last_asked_ = now;
  if (now - *since_ < patience_) return std::nullopt;
  return absl::StrCat("the orchestrator can't use this process: ", refusal);
}

void SetRefusalHandler(RefusalHandler set) {
  absl::MutexLock lock(&mutex);
  delete handler;
  handler = new RefusalHandler(std::move(set));
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeRefusalListener() {
  return std::make_unique<ListenerFactory>();
}

}  // namespace sluice
