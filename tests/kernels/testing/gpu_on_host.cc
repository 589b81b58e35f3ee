#include "tests/kernels/testing/gpu_on_host.h"

#include <utility>

#include "kernels/check.h"
#include "kernels/communicator/communicator.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/host/host_gpu.h"
#include "kernels/cuda/products_path.h"
#include "kernels/exchanged_sum.h"

namespace sluice::testing {
namespace {

// Ranks whose partials a communicator carries, between waits for the stream: what GPUs do among
// themselves is tested in tests/kernels/gpu_ranks, the kernels that add are the same.
class RanksOnHost final : public RankGroup, private RankExchange {
 public:
  static absl::StatusOr<std::unique_ptr<RankGroup>> Create(const RankGroupSpec& spec,
                                                           cuda::CudaBackend& backend) {
    absl::StatusOr<ExchangedSum> sum = ExchangedSum::Create(spec, backend);
    if (!sum.ok()) return sum.status();
    return std::unique_ptr<RankGroup>(new RanksOnHost(*std::move(sum), backend));
  }

  absl::Status Join(Communicator* communicator, Deadline /*deadline*/) override {
    communicator_ = communicator;
    return absl::OkStatus();
  }
  void BeginStep(Deadline deadline) override { deadline_ = deadline; }
  absl::Status SumToResidual(MatrixView partial, const ResidualUpdate& update) override {
    backend_.LeaveStepUnrecorded();
    return sum_.SumToResidual(partial, update, *this);
  }

 private:
  RanksOnHost(ExchangedSum sum, cuda::CudaBackend& backend)
      : sum_(std::move(sum)), backend_(backend) {}

  absl::Status AllGather(absl::Span<const std::byte> sent,
                         absl::Span<std::byte> received) override {
    const absl::Status computed = backend_.Synchronize(deadline_);
    return computed.ok() ? communicator_->AllGather(sent, received, deadline_) : computed;
  }
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override {
    const absl::Status computed = backend_.Synchronize(deadline_);
    return computed.ok() ? communicator_->AllToAll(sent, received, deadline_) : computed;
  }

  ExchangedSum sum_;
  cuda::CudaBackend& backend_;
  Communicator* communicator_ = nullptr;
  Deadline deadline_ = Deadline::Never();
};

}  // namespace

bool HasGpuOnHost() { return true; }

std::unique_ptr<Backend> NewGpuOnHost(const GpuOnHostOptions& options) {
  auto backend = cuda::CudaBackend::Create(
      cuda::MakeHostGpu({.num_multiprocessors = options.num_multiprocessors,
                         .gemm_path = cuda::PathOf(options.products)}),
      {.new_rank_group = RanksOnHost::Create});
  SLUICE_CHECK(backend.ok());
  return *std::move(backend);
}

}  // namespace sluice::testing
