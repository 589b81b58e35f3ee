// A collector of traces in the test's own process. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"

namespace sluice::testing {

class FakeCollector final
    : public opentelemetry::proto::collector::trace::v1::TraceService::Service {
 public:
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Response = opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
  // What the n-th call, from 0, is answered.
  using Answer = std::function<grpc::Status(int call, Response& response)>;

  explicit FakeCollector(
      std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials()) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", std::move(credentials), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~FakeCollector() override { Release(); }

  const std::string& address() const { return address_; }
  std::shared_ptr<grpc::Channel> Channel() const {
    return grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  }

  void Set(Answer answer) {
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(answer);
  }
  // Calls that come are kept waiting until Release().
  void Hold() {
    absl::MutexLock lock(&mutex_);
    held_ = true;
  }
  void Release() {
    absl::MutexLock lock(&mutex_);
    held_ = false;
  }
  // Waits for that many calls, a minute at most.
  bool WaitForCalls(size_t count) const {
    const auto came = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return requests_.size() >= count;
    };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&came), absl::Minutes(1));
  }

  std::vector<Request> requests() const {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }
  // Names of all spans, by call.
  std::vector<std::vector<std::string>> names() const {
    std::vector<std::vector<std::string>> names;
    for (const Request& request : requests()) {
      std::vector<std::string>& of_call = names.emplace_back();
      for (const auto& span : request.resource_spans(0).scope_spans(0).spans()) {
        of_call.push_back(span.name());
      }
    }
    return names;
  }
  // A metadata value of the last call.
  std::string metadata(const std::string& key) const {
    absl::MutexLock lock(&mutex_);
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? "" : found->second;
  }

  grpc::Status Export(grpc::ServerContext* context, const Request* request,
                      Response* response) override {
    absl::MutexLock lock(&mutex_);
    const auto call = static_cast<int>(requests_.size());
    requests_.push_back(*request);
    metadata_.clear();
    for (const auto& [key, value] : context->client_metadata()) {
      metadata_[std::string(key.data(), key.size())] = std::string(value.data(), value.size());
    }
    const auto free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !held_; };
    mutex_.Await(absl::Condition(&free));
    return answer_ == nullptr ? grpc::Status::OK : answer_(call, *response);
  }

 private:
  std::string address_;
  mutable absl::Mutex mutex_;
  Answer answer_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> metadata_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace sluice::testing
