#include "services/shard/rendezvous.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/common/epoch.h"
#include "services/common/status.h"
#include "services/messages/wiring_message.h"

namespace sluice {
namespace {

constexpr absl::Duration kSetTimeout = absl::Seconds(5);

}  // namespace

class RendezvousTable::Waiter final : public grpc::ServerUnaryReactor {
 public:
  Waiter(RendezvousTable& table, Key key, v1::GetRendezvousResponse* response)
      : table_(table), key_(std::move(key)), response_(response) {}

  void Answer(const std::string& value) {
    response_->set_value(value);
    SetWiring(key_.wiring, *response_);
    Finish(grpc::Status::OK);
  }
  void OnCancel() override { table_.Forget(key_, this); }
  void OnDone() override { delete this; }

 private:
  RendezvousTable& table_;
  const Key key_;
  v1::GetRendezvousResponse* const response_;
};

bool RendezvousTable::Key::operator<(const Key& other) const {
  const auto parts = [](const Key& key) {
    return std::tie(key.wiring.epoch, key.wiring.nonce, key.wiring.model_fingerprint, key.name);
  };
  return parts(*this) < parts(other);
}

absl::Status RendezvousTable::CheckAwaited(const WiringIdentity& wiring) const {
  return IsNewerEpoch(wiring.epoch, wiring_.epoch) ? absl::OkStatus()
                                                   : CheckSameWiring(wiring, wiring_);
}

void RendezvousTable::KeepOnly(const WiringIdentity& wiring) {
  std::vector<std::pair<Waiter*, absl::Status>> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (!CheckAwaited(wiring).ok()) return;
    wiring_ = wiring;
    std::erase_if(values_, [&wiring](const auto& entry) {
      return !CheckSameWiring(entry.first.wiring, wiring).ok();
    });
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      const absl::Status awaited = CheckAwaited(it->first.wiring);
      for (Waiter* waiter : it->second) {
        if (!awaited.ok()) dropped.emplace_back(waiter, awaited);
      }
      if (!awaited.ok()) num_waiters_ -= it->second.size();
      it = awaited.ok() ? std::next(it) : waiters_.erase(it);
    }
  }
  for (const auto& [waiter, why] : dropped) waiter->Finish(ToGrpc(why));
}

absl::Status RendezvousTable::Store(const v1::PutRendezvousRequest& request,
                                    std::vector<Waiter*>& waiters) {
  const absl::StatusOr<WiringIdentity> wiring = WiringOf(request);
  if (!wiring.ok()) return wiring.status();
  if (request.value().size() > kMostValueBytes) {
    return absl::InvalidArgumentError(absl::StrCat("value has ", request.value().size(),
                                                   " bytes; accepted: at most ", kMostValueBytes));
  }
  const Key key = {.wiring = *wiring, .name = request.key()};
  absl::MutexLock lock(&mutex_);
  if (absl::Status awaited = CheckAwaited(*wiring); !awaited.ok()) return awaited;
  if (IsNewerEpoch(wiring->epoch, wiring_.epoch) && values_.size() >= kMostWaiting) {
    return absl::ResourceExhaustedError(absl::StrCat(kMostWaiting, " keys are set already"));
  }
  if (!values_.emplace(key, request.value()).second) {
    return absl::AlreadyExistsError(absl::StrCat("key ", key.name, " is set"));
  }
  if (auto waiting = waiters_.extract(key)) {
    waiters = std::move(waiting.mapped());
    num_waiters_ -= waiters.size();
  }
  return absl::OkStatus();
}

void RendezvousTable::Put(const v1::PutRendezvousRequest& request, grpc::ServerUnaryReactor* call) {
  std::vector<Waiter*> waiters;
  const absl::Status stored = Store(request, waiters);
  for (Waiter* waiter : waiters) waiter->Answer(request.value());
  call->Finish(ToGrpc(stored));
}

grpc::ServerUnaryReactor* RendezvousTable::Get(const v1::GetRendezvousRequest& request,
                                               v1::GetRendezvousResponse* response) {
  const absl::StatusOr<WiringIdentity> wiring = WiringOf(request);
  const Key key = {.wiring = wiring.value_or(WiringIdentity()), .name = request.key()};
  auto* const waiter = new Waiter(*this, key, response);  // deletes itself
  absl::Status status = wiring.status();
  std::string value;
  {
    absl::MutexLock lock(&mutex_);
    if (status.ok()) status = CheckAwaited(*wiring);
    const auto found = values_.find(key);
    if (status.ok() && found == values_.end()) {
      if (num_waiters_ < kMostWaiting) {
        waiters_[key].push_back(waiter);
        ++num_waiters_;
        return waiter;
      }
      status = absl::ResourceExhaustedError(absl::StrCat(kMostWaiting, " calls wait already"));
    }
    if (status.ok()) value = found->second;
  }
  if (status.ok()) {
    waiter->Answer(value);
  } else {
    waiter->Finish(ToGrpc(status));
  }
  return waiter;
}

void RendezvousTable::Forget(const Key& key, Waiter* waiter) {
  {
    absl::MutexLock lock(&mutex_);
    const auto waiting = waiters_.find(key);
    if (waiting == waiters_.end() || std::erase(waiting->second, waiter) == 0) return;
    --num_waiters_;
    if (waiting->second.empty()) waiters_.erase(waiting);
  }
  waiter->Finish(grpc::Status::CANCELLED);
}

RemoteRendezvousStore::RemoteRendezvousStore(const std::shared_ptr<grpc::Channel>& channel,
                                             const WiringIdentity& wiring, Deadline deadline)
    : stub_(v1::RendezvousService::NewStub(channel)), wiring_(wiring), deadline_(deadline) {}

absl::Status RemoteRendezvousStore::Set(const std::string& key, std::string bytes) {
  if (deadline_.HasPassed()) {
    return absl::DeadlineExceededError(absl::StrCat("no time is left to set the key ", key));
  }
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + std::min(kSetTimeout, deadline_.Left())));
  v1::PutRendezvousRequest request;
  request.set_key(key);
  request.set_value(std::move(bytes));
  SetWiring(wiring_, request);
  v1::PutRendezvousResponse response;
  return FromGrpc(stub_->PutRendezvous(&context, request, &response));
}

absl::StatusOr<std::string> RemoteRendezvousStore::Get(const std::string& key, Deadline deadline,
                                                       const std::stop_token& stop) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + deadline.Left()));
  v1::GetRendezvousRequest request;
  request.set_key(key);
  SetWiring(wiring_, request);
  v1::GetRendezvousResponse response;
  const std::stop_callback on_stop(stop, [&context] { context.TryCancel(); });
  absl::Status status = FromGrpc(stub_->GetRendezvous(&context, request, &response));
  if (status.ok()) status = CheckWiring(response, wiring_);
  if (!status.ok()) return Annotate(status, absl::StrCat("rendezvous key ", key));
  return std::move(*response.mutable_value());
}

}  // namespace sluice
