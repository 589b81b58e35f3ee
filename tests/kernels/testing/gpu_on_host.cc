#include "tests/kernels/testing/gpu_on_host.h"

#include <optional>
#include <utility>

#include "kernels/check.h"
#include "kernels/communicator.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/products_path.h"
#include "kernels/exchanged_sum.h"
#include "kernels/gpu_ranks/host_member.h"
#include "tests/gpu/host/host_gpu.h"

namespace sluice::testing {
namespace {

// Ranks as threads of one process meet on GPUs: a communicator carries their partials.
class RanksOnHost final : public RankGroup, private cuda::StreamWatch {
 public:
  static absl::StatusOr<std::unique_ptr<RankGroup>> Create(const RankGroupSpec& spec,
                                                           cuda::CudaDevice& backend) {
    absl::StatusOr<ExchangedSum> sum = ExchangedSum::Create(spec, backend);
    if (!sum.ok()) return sum.status();
    return std::unique_ptr<RankGroup>(new RanksOnHost(*std::move(sum), backend));
  }
  ~RanksOnHost() override { backend_.RemoveWatch(this); }

  absl::Status Join(Communicator* communicator, Deadline /*deadline*/) override {
    member_.emplace(backend_, *communicator, [this] { backend_.LeaveStepUnrecorded(); });
    return absl::OkStatus();
  }
  void BeginStep(Deadline deadline) override { member_->SetDeadline(deadline); }
  absl::Status SumToResidual(MatrixView partial, const ResidualUpdate& update) override {
    return sum_.SumToResidual(partial, update, *member_);
  }

 private:
  RanksOnHost(ExchangedSum sum, cuda::CudaDevice& backend)
      : sum_(std::move(sum)), backend_(backend) {
    backend_.AddWatch(this);
  }
  absl::Status Look() override { return member_.has_value() ? member_->Look() : absl::OkStatus(); }

  ExchangedSum sum_;
  cuda::CudaDevice& backend_;
  std::optional<HostMember> member_;  // of the epoch
};

}  // namespace

bool HasGpuOnHost() { return true; }

std::unique_ptr<Backend> NewGpuOnHost(const GpuOnHostOptions& options) {
  auto backend = cuda::CudaBackend::Create(
      cuda::MakeHostGpu({.num_multiprocessors = options.num_multiprocessors,
                         .gemm_path = options.without_pipeline ? cuda::GemmPath::kHopper
                                                               : cuda::PathOf(options.products),
                         .multiplies_fp8 = cuda::MultiplyFp8(options.products)}),
      {.new_rank_group = RanksOnHost::Create});
  SLUICE_CHECK(backend.ok());
  return *std::move(backend);
}

}  // namespace sluice::testing
