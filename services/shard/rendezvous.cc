#include "services/shard/rendezvous.h"

#include <grpcpp/client_context.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/common/status.h"

namespace sluice {
namespace {

constexpr absl::Duration kSetTimeout = absl::Seconds(5);

}  // namespace

class RendezvousTable::Waiter final : public grpc::ServerUnaryReactor {
 public:
  Waiter(RendezvousTable& table, std::string key, v1::GetRendezvousResponse* response)
      : table_(table), key_(std::move(key)), response_(response) {}

  void Answer(const std::string& value) {
    response_->set_value(value);
    Finish(grpc::Status::OK);
  }
  void OnCancel() override { table_.Forget(key_, this); }
  void OnDone() override { delete this; }

 private:
  RendezvousTable& table_;
  const std::string key_;
  v1::GetRendezvousResponse* const response_;
};

void RendezvousTable::KeepOnly(const std::string& group) {
  const auto is_old = [&group](const auto& entry) { return !absl::StartsWith(entry.first, group); };
  std::vector<Waiter*> dropped;
  {
    absl::MutexLock lock(&mutex_);
    std::erase_if(values_, is_old);
    for (const auto& entry : waiters_) {
      if (is_old(entry)) dropped.insert(dropped.end(), entry.second.begin(), entry.second.end());
    }
    std::erase_if(waiters_, is_old);
  }
  for (Waiter* waiter : dropped) {
    waiter->Finish(ToGrpc(absl::AbortedError("a newer epoch has begun")));
  }
}

void RendezvousTable::Put(const std::string& key, const std::string& value,
                          grpc::ServerUnaryReactor* call) {
  std::vector<Waiter*> waiters;
  {
    absl::MutexLock lock(&mutex_);
    if (!values_.emplace(key, value).second) {
      call->Finish(ToGrpc(absl::AlreadyExistsError(absl::StrCat("key ", key, " is set"))));
      return;
    }
    if (auto waiting = waiters_.extract(key)) waiters = std::move(waiting.mapped());
  }
  for (Waiter* waiter : waiters) waiter->Answer(value);
  call->Finish(grpc::Status::OK);
}

grpc::ServerUnaryReactor* RendezvousTable::Get(const std::string& key,
                                               v1::GetRendezvousResponse* response) {
  auto* const waiter = new Waiter(*this, key, response);  // deletes itself
  std::string value;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) {
      waiters_[key].push_back(waiter);
      return waiter;
    }
    value = found->second;
  }
  waiter->Answer(value);
  return waiter;
}

void RendezvousTable::Forget(const std::string& key, Waiter* waiter) {
  {
    absl::MutexLock lock(&mutex_);
    const auto waiting = waiters_.find(key);
    if (waiting == waiters_.end() || std::erase(waiting->second, waiter) == 0) return;
  }
  waiter->Finish(grpc::Status::CANCELLED);
}

RemoteRendezvousStore::RemoteRendezvousStore(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::ShardService::NewStub(channel)) {}

absl::Status RemoteRendezvousStore::Set(const std::string& key, std::string bytes) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kSetTimeout));
  v1::PutRendezvousRequest request;
  request.set_key(key);
  request.set_value(std::move(bytes));
  v1::PutRendezvousResponse response;
  return FromGrpc(stub_->PutRendezvous(&context, request, &response));
}

absl::StatusOr<std::string> RemoteRendezvousStore::Get(const std::string& key, Deadline deadline,
                                                       const std::stop_token& stop) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + deadline.Left()));
  v1::GetRendezvousRequest request;
  request.set_key(key);
  v1::GetRendezvousResponse response;
  const std::stop_callback on_stop(stop, [&context] { context.TryCancel(); });
  const absl::Status status = FromGrpc(stub_->GetRendezvous(&context, request, &response));
  if (!status.ok()) return Annotate(status, absl::StrCat("rendezvous key ", key));
  return std::move(*response.mutable_value());
}

}  // namespace sluice
