#include "kernels/cuda/ranks/cuda_rank_group.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/cuda/ranks/flag_stream.h"
#include "kernels/cuda/ranks/nccl_stream.h"
#include "kernels/cuda/ranks/peer_memory.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/exchanged_sum.h"
#include "kernels/gpu_ranks/agreement.h"
#include "kernels/gpu_ranks/host_member.h"
#include "kernels/gpu_ranks/introduction.h"
#include "kernels/gpu_ranks/nccl_member.h"
#include "kernels/gpu_ranks/peer_member.h"

namespace sluice::cuda {
namespace {

constexpr auto kPause = std::chrono::microseconds(50);

// What processes on one GPU need for an epoch.
struct PeerParts {
  std::unique_ptr<PeerMappings> mappings;
  std::unique_ptr<PeerFlagMemory> flags;
  std::unique_ptr<FlagStream> stream;
};

class CudaRankGroup final : public RankGroup, private StreamWatch {
 public:
  CudaRankGroup(ExchangedSum sum, absl::StatusOr<std::unique_ptr<PeerSlot>> slot,
                CudaDevice& backend)
      : sum_(std::move(sum)), slot_(std::move(slot)), backend_(backend) {
    backend_.AddWatch(this);
  }
  ~CudaRankGroup() override {
    Leave();
    backend_.RemoveWatch(this);
  }

  absl::Status Join(Communicator* communicator, Deadline deadline) override;
  void BeginStep(Deadline deadline) override {
    SLUICE_CHECK(member_ != nullptr);
    member_->SetDeadline(deadline);
  }
  absl::Status SumToResidual(MatrixView partial, const ResidualUpdate& update) override {
    SLUICE_CHECK(member_ != nullptr);
    return sum_.SumToResidual(partial, update, *member_);
  }

 private:
  absl::Status Look() override { return member_ == nullptr ? absl::OkStatus() : member_->Look(); }
  void Leave();
  absl::StatusOr<std::vector<GpuIntroduction>> Introduce(Communicator& communicator,
                                                         Deadline deadline);
  absl::Status JoinNccl(Communicator& communicator, Deadline deadline);
  absl::Status JoinPeers(const std::vector<GpuIntroduction>& ranks, Communicator& communicator,
                         Deadline deadline);

  ExchangedSum sum_;
  const absl::StatusOr<std::unique_ptr<PeerSlot>> slot_;  // or why it can't be shared
  CudaDevice& backend_;
  // Of the epoch.
  PeerParts peers_;
  std::unique_ptr<NcclStream> nccl_;
  std::unique_ptr<RankMember> member_;  // last: uses what is above
};

void CudaRankGroup::Leave() {
  // Recordings name the group and the others' memory.
  backend_.ForgetRecordedSteps();
  member_.reset();
  nccl_.reset();
  // What uses the others first.
  peers_.stream.reset();
  peers_.flags.reset();
  peers_.mappings.reset();
}

absl::Status CudaRankGroup::Join(Communicator* communicator, Deadline deadline) {
  SLUICE_CHECK(communicator != nullptr && communicator->size() == sum_.spec().num_ranks);
  Leave();
  const auto ranks = Introduce(*communicator, deadline);
  if (!ranks.ok()) return ranks.status();
  const absl::StatusOr<GpuTransport> transport = ChooseTransport(*ranks);
  if (!transport.ok()) return transport.status();
  backend_.BeginEpoch(*transport != GpuTransport::kNccl ? RecordSteps::kWhereItCan
                      : RecordAlike(*ranks)             ? RecordSteps::kLikeOtherRanks
                                                        : RecordSteps::kNever);
  switch (*transport) {
    case GpuTransport::kHost:
      member_ = std::make_unique<HostMember>(backend_, *communicator,
                                             [this] { backend_.LeaveStepUnrecorded(); });
      return absl::OkStatus();
    case GpuTransport::kNccl:
      return JoinNccl(*communicator, deadline);
    case GpuTransport::kPeer:
      return JoinPeers(*ranks, *communicator, deadline);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<GpuIntroduction>> CudaRankGroup::Introduce(Communicator& communicator,
                                                                      Deadline deadline) {
  backend_.gpu().stream();  // also chooses the device for this thread
  int device = 0;
  cudaDeviceProp properties;
  SLUICE_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  SLUICE_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, device));
  GpuIntroduction own;
  std::memcpy(own.gpu.data(), properties.uuid.bytes, own.gpu.size());
  own.wiring = communicator.wiring();
  own.host = ThisHost();
  own.process = ThisProcess();
  if (slot_.ok()) (*slot_)->Describe(own);
  PutText(std::string(slot_.status().message()), own.slots_failure);
  PutText(std::string(NcclLibrary::Get().status().message()), own.nccl_failure);
  own.num_multiprocessors = properties.multiProcessorCount;
  own.records_steps = backend_.RecordsSteps();
  std::vector<GpuIntroduction> all(communicator.size());
  const absl::Status met = communicator.AllGather(
      {reinterpret_cast<const std::byte*>(&own), sizeof(own)},
      {reinterpret_cast<std::byte*>(all.data()), all.size() * sizeof(own)}, deadline);
  if (!met.ok()) return met;
  return all;
}

absl::Status CudaRankGroup::JoinNccl(Communicator& communicator, Deadline deadline) {
  nccl_ = std::make_unique<NcclStream>(*NcclLibrary::Get(), backend_.gpu());
  auto member = std::make_unique<NcclMember>(
      *nccl_, [] { std::this_thread::sleep_for(kPause); },
      [this] { backend_.ForgetRecordedSteps(); });
  const absl::Status met = member->Join(&communicator, deadline);
  member_ = std::move(member);
  return met;
}

absl::Status CudaRankGroup::JoinPeers(const std::vector<GpuIntroduction>& ranks,
                                      Communicator& communicator, Deadline deadline) {
  const absl::StatusOr<FlagCalls>& calls = FlagCalls::Get();
  absl::Status own = calls.status();
  auto mappings = PeerMappings::Open(ranks, communicator.rank(), **slot_, backend_.gpu());
  if (own.ok()) own = mappings.status();
  if (absl::Status all = AllSucceeded(communicator, own, deadline); !all.ok()) return all;
  auto flags = PeerFlagMemory::Meet(communicator, deadline, backend_.gpu());
  if (!flags.ok()) return flags.status();
  peers_.mappings = *std::move(mappings);
  peers_.flags = *std::move(flags);
  peers_.stream = std::make_unique<FlagStream>(*calls, *peers_.flags, backend_.gpu());
  member_ = std::make_unique<PeerMember>(PeerPlaces{.rank = communicator.rank(),
                                                    .slot_bytes = (*slot_)->size(),
                                                    .slots = peers_.mappings->slots(),
                                                    .flags = peers_.flags->flags()},
                                         *peers_.stream, communicator);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> NewCudaRankGroup(const RankGroupSpec& spec,
                                                            CudaDevice& backend) {
  RankGroupSpec on_gpus = spec;
  on_gpus.gather_bytes = GatherBytesOnGpus(spec.num_ranks);
  auto sum = ExchangedSum::Create(on_gpus, backend);
  if (!sum.ok()) return sum.status();
  auto slot = PeerSlot::Create(sum->largest_message(), backend.gpu());
  // Only processes on one GPU need it: where memory can't be shared, Join() says so to those.
  if (!slot.ok() && !absl::IsUnavailable(slot.status())) return slot.status();
  return std::make_unique<CudaRankGroup>(*std::move(sum), std::move(slot), backend);
}

}  // namespace sluice::cuda
