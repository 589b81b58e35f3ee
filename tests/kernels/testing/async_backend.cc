#include "tests/kernels/testing/async_backend.h"

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/check.h"
#include "kernels/memory_sharing.h"
#include "kernels/observed/forwarding_backend.h"
#include "tests/kernels/testing/guarded_memory.h"
#include "tests/kernels/testing/shared_pages.h"

namespace sluice {
namespace {

using Work = std::function<absl::Status()>;

// Carries out work on a thread of its own, while memory is open to it.
class WorkThread {
 public:
  explicit WorkThread(std::shared_ptr<GuardedMemory> memory)
      : memory_(std::move(memory)), thread_([this] { Loop(); }) {}
  ~WorkThread() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Does the work in order, until one fails. DEADLINE_EXCEEDED where that takes too long, and ever
  // after.
  absl::Status Run(std::vector<Work> work, Deadline deadline) {
    std::unique_lock lock(mutex_);
    if (is_lost_) return absl::DeadlineExceededError("the backend is lost to work that hangs");
    work_ = std::move(work);
    is_done_ = false;
    changed_.notify_all();
    if (!changed_.wait_until(lock, deadline.time(), [this] { return is_done_; })) {
      is_lost_ = true;
      return absl::DeadlineExceededError("enqueued work is not done in time");
    }
    return result_;
  }

 private:
  void Loop() {
    while (true) {
      std::vector<Work> work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !is_done_ || stopping_; });
        if (is_done_) return;
        work = std::move(work_);
      }
      absl::Status result = CarryOut(work);
      const std::lock_guard lock(mutex_);
      result_ = std::move(result);
      is_done_ = true;
      changed_.notify_all();
    }
  }

  absl::Status CarryOut(const std::vector<Work>& work) {
    const GuardedMemory::Opened opened(*memory_);
    for (const Work& each : work) {
      if (absl::Status status = each(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<GuardedMemory> memory_;
  // Of the standard library: those of Abseil wait by the wall clock.
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<Work> work_;
  absl::Status result_;
  bool is_done_ = true;
  bool is_lost_ = false;
  bool stopping_ = false;

  std::thread thread_;  // last: uses what is above
};

class AsyncBackend final : public ForwardingBackend, private MemorySharing {
 public:
  using ForwardingBackend::ForwardingBackend;

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes) override {
    return memory_->Allocate(size_bytes);
  }

  MemorySharing* sharing() override { return this; }

  absl::Status Synchronize(Deadline deadline) override {
    SLUICE_CHECK(!is_recording_);
    return thread_.Run(std::exchange(queue_, {}), deadline);
  }

  absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) override;

  int64_t BucketRows(int64_t rows) const override {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
  }

  absl::Status RunStep(const StepKey& key, absl::FunctionRef<absl::Status()> enqueue) override {
    if (const auto known = recorded_.find(key); known != recorded_.end()) {
      queue_.insert(queue_.end(), known->second.begin(), known->second.end());
      return absl::OkStatus();
    }
    const auto first = static_cast<int64_t>(queue_.size());
    is_recording_ = true;
    absl::Status status = enqueue();
    is_recording_ = false;
    if (status.ok()) recorded_[key] = std::vector<Work>(queue_.begin() + first, queue_.end());
    return status;
  }

  void Enqueue(Work work) override { queue_.push_back(std::move(work)); }

 private:
  absl::StatusOr<Shared> AllocateShared(size_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<Buffer>> OpenShared(absl::string_view handle) override;
  void CopyShared(const void* from, void* to, size_t size_bytes) override {
    Enqueue([=] {
      std::memcpy(to, from, size_bytes);
      return absl::OkStatus();
    });
  }

  const std::shared_ptr<GuardedMemory> memory_ = GuardedMemory::Create();
  std::vector<Work> queue_;
  std::map<StepKey, std::vector<Work>> recorded_;
  bool is_recording_ = false;
  WorkThread thread_{memory_};  // last: its work uses what is above
};

// Keeps the file open, by which others find the pages.
class SharedBuffer final : public Buffer {
 public:
  SharedBuffer(std::unique_ptr<Buffer> mapped, SealedMemory file)
      : mapped_(std::move(mapped)), file_(std::move(file)) {}
  void* data() override { return mapped_->data(); }
  size_t size_bytes() const override { return mapped_->size_bytes(); }

 private:
  const std::unique_ptr<Buffer> mapped_;
  const SealedMemory file_;
};

absl::StatusOr<MemorySharing::Shared> AsyncBackend::AllocateShared(size_t size_bytes) {
  absl::StatusOr<SharedPages> pages = CreateSharedPages(size_bytes);
  if (!pages.ok()) return pages.status();
  auto mapped = memory_->Map(pages->memory.fd(), size_bytes);
  if (!mapped.ok()) return mapped.status();
  return Shared{
      .memory = std::make_unique<SharedBuffer>(*std::move(mapped), std::move(pages->memory)),
      .handle = std::move(pages->handle)};
}

absl::StatusOr<std::unique_ptr<Buffer>> AsyncBackend::OpenShared(absl::string_view handle) {
  const absl::StatusOr<SealedMemory> file = OpenSharedPages(handle);
  if (!file.ok()) return file.status();
  return memory_->Map(file->fd(), file->size_bytes());
}

class AsyncRankGroup final : public RankGroup {
 public:
  AsyncRankGroup(AsyncBackend& backend, std::unique_ptr<RankGroup> within)
      : backend_(backend), within_(std::move(within)) {}

  absl::Status Join(Communicator* communicator, Deadline deadline) override {
    return within_->Join(communicator, deadline);
  }

  void BeginStep(Deadline deadline) override {
    backend_.Enqueue([this, deadline] {
      within_->BeginStep(deadline);
      return absl::OkStatus();
    });
  }

  absl::Status SumToResidual(MatrixView partial, const ResidualUpdate& update) override {
    backend_.Enqueue([=, this] { return within_->SumToResidual(partial, update); });
    return absl::OkStatus();
  }

 private:
  AsyncBackend& backend_;
  const std::unique_ptr<RankGroup> within_;
};

absl::StatusOr<std::unique_ptr<RankGroup>> AsyncBackend::NewRankGroup(const RankGroupSpec& spec) {
  absl::StatusOr<std::unique_ptr<RankGroup>> group = within().NewRankGroup(spec);
  if (!group.ok()) return group.status();
  return std::make_unique<AsyncRankGroup>(*this, *std::move(group));
}

}  // namespace

std::unique_ptr<Backend> MakeAsyncBackend(std::unique_ptr<Backend> within) {
  return std::make_unique<AsyncBackend>(std::move(within));
}

}  // namespace sluice
