#include "services/stage/stage_worker.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/common/epoch.h"

namespace sluice {
namespace {

uint64_t RandomNumber() {
  const WiringNonce bits = DrawWiringNonce();
  uint64_t number = 0;
  std::memcpy(&number, bits.data(), sizeof(number));
  return number;
}

}  // namespace

StageWorker::StageWorker(ProgressWatch* progress)
    : progress_(progress), tenure_(RandomNumber()), thread_([this] { Loop(); }) {}

StageWorker::~StageWorker() {
  std::shared_ptr<StageSession> current, next;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    current = current_;
    next = std::move(next_);
  }
  const absl::Status reason = absl::UnavailableError("the service is shutting down");
  if (current != nullptr) current->Close(reason);
  if (next != nullptr) next->Close(reason);
  thread_.join();
}

absl::Status StageWorker::Switch(const std::string& orchestrator, const std::string& nonce,
                                 uint64_t epoch, std::shared_ptr<StageSession> session) {
  std::shared_ptr<StageSession> current, skipped;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the service is shutting down");
    const absl::Status free = tenure_.Check(orchestrator, SteadyTime::Now());
    if (!free.ok()) return free;
    if (epoch == 0 || epoch > kMaxEpoch) {
      return absl::InvalidArgumentError(
          absl::StrCat("epoch is ", epoch, "; accepted: 1 to ", kMaxEpoch));
    }
    if (!IsNewerEpoch(epoch, epoch_)) {
      return absl::AbortedError(
          absl::StrCat("epoch ", epoch, " is not newer than the current epoch ", epoch_));
    }
    epoch_ = epoch;
    session->on_left_ = [this, stream = tenure_.Begin(orchestrator, nonce)] {
      absl::MutexLock lock(&mutex_);
      tenure_.End(stream, SteadyTime::Now());
    };
    current = current_;
    skipped = std::exchange(next_, std::move(session));
  }
  const absl::Status reason = absl::AbortedError(absl::StrCat("replaced by epoch ", epoch));
  if (current != nullptr) current->Close(reason);
  if (skipped != nullptr) skipped->Close(reason);
  return absl::OkStatus();
}

void StageWorker::NoteStep() {
  absl::MutexLock lock(&mutex_);
  tenure_.Stepped();
}

uint64_t StageWorker::epoch() const {
  absl::MutexLock lock(&mutex_);
  return epoch_ < kMaxEpoch ? epoch_ : 0;
}

uint64_t StageWorker::tenure() const {
  absl::MutexLock lock(&mutex_);
  return tenure_.number();
}

void StageWorker::Loop() {
  while (true) {
    std::shared_ptr<StageSession> session;
    {
      absl::MutexLock lock(&mutex_);
      current_ = nullptr;
      mutex_.Await(absl::Condition(
          +[](StageWorker* worker) { return worker->next_ != nullptr || worker->stopping_; },
          this));
      if (next_ == nullptr) return;
      session = current_ = std::move(next_);
    }
    session->progress_ = progress_;
    session->Run();
  }
}

}  // namespace sluice
