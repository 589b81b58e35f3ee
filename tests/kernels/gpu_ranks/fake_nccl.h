// NCCL as tests want it: exchanges between threads of one process, and fails at will.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "kernels/check.h"
#include "kernels/gpu_ranks/nccl_api.h"

namespace sluice::testing {

// What all ranks have in common, as the network is. Thread-safe.
class FakeNcclNetwork {
 public:
  NcclId NewId() {
    absl::MutexLock lock(&mutex_);
    NcclId id{};
    std::memcpy(id.data(), &++num_ids_, sizeof(num_ids_));
    return id;
  }

  struct Call {
    const void* sent = nullptr;
    void* received = nullptr;
    size_t bytes = 0;
    bool to_all = false;
  };
  // The ranks of an id, as far as they have come, and the call that they are in.
  struct Meeting {
    int num_come = 0;
    std::vector<Call> calls;  // by rank
    int num_calling = 0;
    int num_calls_done = 0;
    bool is_broken = false;  // a rank has ended it
  };
  std::shared_ptr<Meeting> MeetingOf(const NcclId& id, int size) {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<Meeting>& meeting = meetings_[id];
    if (meeting == nullptr)
      meeting = std::make_shared<Meeting>(Meeting{.calls = std::vector<Call>(size)});
    ++meeting->num_come;
    return meeting;
  }

  absl::Mutex& mutex() { return mutex_; }

 private:
  absl::Mutex mutex_;
  uint64_t num_ids_ = 0;
  std::map<NcclId, std::shared_ptr<Meeting>> meetings_;
};

// One rank's library.
class FakeNccl final : public NcclApi {
 public:
  explicit FakeNccl(FakeNcclNetwork& network) : network_(network) {}

  // Of the calls to come.
  absl::Status id_failure;
  absl::Status progress_failure;
  bool hangs = false;
  int num_aborted = 0;
  // Of work that names the group: the library would wait for their end for ever.
  int num_recordings = 0;

  absl::StatusOr<NcclId> NewId() override {
    if (!id_failure.ok()) return id_failure;
    return network_.NewId();
  }

  absl::StatusOr<NcclGroup*> Begin(const NcclId& id, int rank, int size) override {
    meeting_ = network_.MeetingOf(id, size);
    rank_ = rank;
    size_ = size;
    awaited_calls_ = 0;
    return reinterpret_cast<NcclGroup*>(this);
  }

  absl::StatusOr<NcclProgress> Progress(NcclGroup*) override {
    if (!progress_failure.ok()) return progress_failure;
    absl::MutexLock lock(&network_.mutex());
    if (meeting_->is_broken) return absl::UnavailableError("a remote process has ended");
    const bool done = meeting_->num_come == size_ && meeting_->num_calls_done >= awaited_calls_;
    return done && !hangs ? NcclProgress::kDone : NcclProgress::kUnderWay;
  }

  absl::Status AllGather(NcclGroup*, const void* sent, void* received, size_t bytes) override {
    return Make({sent, received, bytes, /*to_all=*/false});
  }
  absl::Status AllToAll(NcclGroup*, const void* sent, void* received, size_t bytes) override {
    return Make({sent, received, bytes, /*to_all=*/true});
  }

  void Abort(NcclGroup*) override {
    SLUICE_CHECK(num_recordings == 0);
    ++num_aborted;
    absl::MutexLock lock(&network_.mutex());
    meeting_->is_broken = true;
    meeting_.reset();
  }

 private:
  absl::Status Make(const FakeNcclNetwork::Call& call) {
    absl::MutexLock lock(&network_.mutex());
    ++awaited_calls_;
    meeting_->calls[rank_] = call;
    if (++meeting_->num_calling < size_) return absl::OkStatus();
    // Whoever is last moves the bytes of all.
    for (int to = 0; to < size_; ++to) {
      for (int from = 0; from < size_; ++from) {
        const auto& [sent, unused, bytes, to_all] = meeting_->calls[from];
        std::memcpy(static_cast<std::byte*>(meeting_->calls[to].received) + from * bytes,
                    static_cast<const std::byte*>(sent) + (to_all ? to * bytes : 0), bytes);
      }
    }
    meeting_->num_calling = 0;
    ++meeting_->num_calls_done;
    return absl::OkStatus();
  }

  FakeNcclNetwork& network_;
  std::shared_ptr<FakeNcclNetwork::Meeting> meeting_;
  int rank_ = 0;
  int size_ = 0;
  int awaited_calls_ = 0;
};

}  // namespace sluice::testing
