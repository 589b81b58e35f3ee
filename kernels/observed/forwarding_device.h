// A device that hands on to another backend's: the half of a forwarding backend that has memory and
// steps. Work is handed on piece by piece and borrows nothing of its caller's, since spans are copied
// aside. Driven by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace sluice {

template <class T>
std::vector<std::remove_const_t<T>> CopyOf(absl::Span<T> span) {
  return {span.begin(), span.end()};
}

// Results that work may still write when nobody waits for it any more.
template <class T>
std::shared_ptr<std::vector<T>> Staged(absl::Span<T> results) {
  return std::make_shared<std::vector<T>>(results.size());
}

class ForwardingDevice : public Backend {
 public:
  using Work = std::function<absl::Status()>;

  explicit ForwardingDevice(std::unique_ptr<Backend> within);
  ~ForwardingDevice() override;

  // Does the work, or sees to it that it is done by the time Synchronize() returns. The first
  // failure since the last call of that is its result.
  virtual void Enqueue(Work work);
  // The same for work that cannot fail.
  template <class Operation>
  void Forward(Operation operation) {
    Enqueue([operation = std::move(operation)] {
      operation();
      return absl::OkStatus();
    });
  }
  Backend& within() { return *within_; }

  std::string_view name() const override;
  DType operand_dtype() const override;
  std::optional<DeviceMemory> memory() const override;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes) override;
  void CopyIn(absl::Span<const std::byte> host, void* device) override;
  absl::Status CopyOut(const void* device, absl::Span<std::byte> host) override;
  absl::Status Synchronize(Deadline deadline) override;
  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                     const RowReader& read) override;
  absl::StatusOr<std::unique_ptr<KvPool>> NewKvPool(const KvPoolSpec& spec) override;
  void ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) override;
  void ReserveForAttention(const KvPool& pool, int64_t max_rows) override;
  absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) override;
  ExpertOps* experts() override { return experts_.get(); }
  LatentOps* latents() override { return latents_.get(); }
  RecurrentOps* recurrence() override { return recurrence_.get(); }
  int64_t BucketRows(int64_t rows) const override;
  void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) override;
  absl::Status RunStep(const StepKey& key, absl::FunctionRef<absl::Status()> enqueue) override;

 protected:
  // Enqueues `work` and waits for it.
  absl::Status Await(Work work);

 private:
  const std::unique_ptr<Backend> within_;
  // Null where the backend within has none.
  const std::unique_ptr<ExpertOps> experts_;
  const std::unique_ptr<LatentOps> latents_;
  const std::unique_ptr<RecurrentOps> recurrence_;
  absl::Status failure_;
};

}  // namespace sluice
