#include "kernels/reference/async_backend.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/check.h"
#include "kernels/reference/guarded_memory.h"

namespace sluice {
namespace {

using Work = std::function<absl::Status()>;

template <class T>
std::vector<std::remove_const_t<T>> CopyOf(absl::Span<T> span) {
  return {span.begin(), span.end()};
}

// Carries out work on a thread of its own, while memory is open to it.
class WorkThread {
 public:
  explicit WorkThread(std::shared_ptr<GuardedMemory> memory)
      : memory_(std::move(memory)), thread_([this] { Loop(); }) {}
  ~WorkThread() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  // Does the work in order, until one fails. DEADLINE_EXCEEDED where that takes too long, and ever
  // after.
  absl::Status Run(std::vector<Work> work, Deadline deadline) {
    absl::MutexLock lock(&mutex_);
    if (is_lost_) return absl::DeadlineExceededError("the backend is lost to work that hangs");
    work_ = std::move(work);
    is_done_ = false;
    if (!mutex_.AwaitWithTimeout(absl::Condition(&is_done_), deadline.Left())) {
      is_lost_ = true;
      return absl::DeadlineExceededError("enqueued work is not done in time");
    }
    return result_;
  }

 private:
  bool HasToAct() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !is_done_ || stopping_; }

  void Loop() {
    while (true) {
      std::vector<Work> work;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &WorkThread::HasToAct));
        if (is_done_) return;
        work = std::move(work_);
      }
      absl::Status result = CarryOut(work);
      absl::MutexLock lock(&mutex_);
      result_ = std::move(result);
      is_done_ = true;
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
  absl::Mutex mutex_;
  std::vector<Work> work_ ABSL_GUARDED_BY(mutex_);
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
  bool is_done_ ABSL_GUARDED_BY(mutex_) = true;
  bool is_lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: uses what is above
};

// Segments with tables of their own.
struct OwnedSegments {
  explicit OwnedSegments(absl::Span<const AttentionSegment> from) : segments(CopyOf(from)) {
    for (AttentionSegment& segment : segments) {
      tables.push_back(CopyOf(segment.block_table));
      segment.block_table = tables.back();
    }
  }

  std::vector<AttentionSegment> segments;
  std::vector<std::vector<int32_t>> tables;
};

class AsyncBackend final : public Backend {
 public:
  explicit AsyncBackend(std::unique_ptr<Backend> within) : within_(std::move(within)) {}

  std::string_view name() const override { return within_->name(); }
  DType operand_dtype() const override { return within_->operand_dtype(); }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes) override {
    return memory_->Allocate(size_bytes);
  }

  void CopyIn(absl::Span<const std::byte> host, void* device) override {
    Enqueue([staged = CopyOf(host), device] {
      std::copy(staged.begin(), staged.end(), static_cast<std::byte*>(device));
    });
  }

  // By several threads at a time, from host tasks.
  absl::Status CopyOut(const void* device, absl::Span<std::byte> host) override {
    absl::MutexLock lock(&copying_);
    // Its own, because work that is late may still write it.
    const auto staged = std::make_shared<std::vector<std::byte>>(host.size());
    Enqueue([staged, device] {
      std::copy_n(static_cast<const std::byte*>(device), staged->size(), staged->begin());
    });
    absl::Status status = Backend::Synchronize();
    if (status.ok()) std::copy(staged->begin(), staged->end(), host.begin());
    return status;
  }

  absl::Status Synchronize(Deadline deadline) override {
    SLUICE_CHECK(!is_recording_);
    return thread_.Run(std::exchange(queue_, {}), deadline);
  }

  int num_host_threads() const override { return within_->num_host_threads(); }
  void RunOnHost(int64_t count, HostTask task) override { within_->RunOnHost(count, task); }

  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                     const RowReader& read) override {
    return within_->Pack(spec, read);
  }
  absl::StatusOr<std::unique_ptr<KvPool>> NewKvPool(const KvPoolSpec& spec) override {
    return within_->NewKvPool(spec);
  }
  void ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) override {
    within_->ReserveForGemm(weights, max_rows);
  }
  void ReserveForAttention(const KvPool& pool, int64_t max_rows) override {
    within_->ReserveForAttention(pool, max_rows);
  }
  absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) override;

  int64_t BucketRows(int64_t rows) const override {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
  }

  void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) override {
    Enqueue([this, owned = std::make_shared<OwnedSegments>(segments), rows] {
      within_->BeginStep(owned->segments, rows);
    });
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

  void EmbeddingGather(MatrixView table, absl::Span<const int32_t> ids, MatrixView out) override {
    Enqueue([=, this, ids = CopyOf(ids)] { within_->EmbeddingGather(table, ids, out); });
  }
  void RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) override {
    Enqueue([=, this] { within_->RmsNorm(x, weight, eps, out); });
  }
  void HeadRmsNorm(MatrixView x, int head_dim, const float* weight, float eps) override {
    Enqueue([=, this] { within_->HeadRmsNorm(x, head_dim, weight, eps); });
  }
  void LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                 MatrixView out) override {
    Enqueue([=, this] { within_->LayerNorm(x, weight, bias, eps, out); });
  }
  void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
            const GemmEpilogue& epilogue) override {
    Enqueue([=, this, &weights] { within_->Gemm(x, weights, out, epilogue); });
  }
  void Rope(MatrixView x, int head_dim, const RopeTables& tables, RopeLayout layout) override {
    Enqueue([=, this] { within_->Rope(x, head_dim, tables, layout); });
  }
  void StoreKv(MatrixView keys, MatrixView values, int layer, KvPool& pool) override {
    Enqueue([=, this, &pool] { within_->StoreKv(keys, values, layer, pool); });
  }
  void CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) override {
    Enqueue([this, copies = CopyOf(copies), &pool] { within_->CopyBlocks(copies, pool); });
  }
  void PagedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      MatrixView out) override {
    Enqueue([=, this, &pool] { within_->PagedAttention(q, pool, layer, options, out); });
  }
  void AddBias(const float* bias, MatrixView x) override {
    Enqueue([=, this] { within_->AddBias(bias, x); });
  }
  void Scale(float factor, MatrixView x) override {
    Enqueue([=, this] { within_->Scale(factor, x); });
  }
  void AddResidual(MatrixView x, MatrixView residual) override {
    Enqueue([=, this] { within_->AddResidual(x, residual); });
  }
  void TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) override {
    Enqueue([=, this, partials = CopyOf(partials)] { within_->TreeAdd(partials, out); });
  }
  void LogSoftmax(MatrixView x, MatrixView out) override {
    Enqueue([=, this] { within_->LogSoftmax(x, out); });
  }

  absl::Status TopK(MatrixView x, int k, absl::Span<float> values,
                    absl::Span<int32_t> ids) override {
    struct Best {
      std::vector<float> values;
      std::vector<int32_t> ids;
    };
    const auto best = std::make_shared<Best>();
    best->values.resize(values.size());
    best->ids.resize(ids.size());
    EnqueueFallible([=, this] {
      return within_->TopK(x, k, absl::MakeSpan(best->values), absl::MakeSpan(best->ids));
    });
    absl::Status status = Backend::Synchronize();
    if (!status.ok()) return status;
    std::copy(best->values.begin(), best->values.end(), values.begin());
    std::copy(best->ids.begin(), best->ids.end(), ids.begin());
    return status;
  }

  void EnqueueFallible(Work work) { queue_.push_back(std::move(work)); }

 private:
  template <class F>
  void Enqueue(F f) {
    EnqueueFallible([f = std::move(f)]() mutable {
      f();
      return absl::OkStatus();
    });
  }

  const std::unique_ptr<Backend> within_;
  const std::shared_ptr<GuardedMemory> memory_ = GuardedMemory::Create();
  std::vector<Work> queue_;
  std::map<StepKey, std::vector<Work>> recorded_;
  bool is_recording_ = false;
  absl::Mutex copying_;
  WorkThread thread_{memory_};  // last: its work uses what is above
};

class AsyncRankGroup final : public RankGroup {
 public:
  AsyncRankGroup(AsyncBackend& backend, std::unique_ptr<RankGroup> within)
      : backend_(backend), within_(std::move(within)) {}

  void BeginStep(Communicator* communicator, Deadline deadline) override {
    backend_.EnqueueFallible([this, communicator, deadline] {
      within_->BeginStep(communicator, deadline);
      return absl::OkStatus();
    });
  }

  absl::Status Sum(MatrixView partial) override {
    backend_.EnqueueFallible([this, partial] { return within_->Sum(partial); });
    return absl::OkStatus();
  }

 private:
  AsyncBackend& backend_;
  const std::unique_ptr<RankGroup> within_;
};

absl::StatusOr<std::unique_ptr<RankGroup>> AsyncBackend::NewRankGroup(const RankGroupSpec& spec) {
  absl::StatusOr<std::unique_ptr<RankGroup>> within = within_->NewRankGroup(spec);
  if (!within.ok()) return within.status();
  return std::make_unique<AsyncRankGroup>(*this, *std::move(within));
}

}  // namespace

std::unique_ptr<Backend> MakeAsyncBackend(std::unique_ptr<Backend> within) {
  return std::make_unique<AsyncBackend>(std::move(within));
}

}  // namespace sluice
