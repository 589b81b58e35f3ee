// NCCL on the stream of one backend. Belongs to the backend's thread.
#pragma once

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/ranks/nccl_library.h"
#include "kernels/gpu_ranks/nccl_api.h"

namespace sluice::cuda {

class NcclStream final : public NcclApi {
 public:
  // Borrows both.
  NcclStream(const NcclLibrary& nccl, Gpu& gpu) : nccl_(nccl), gpu_(gpu) {}

  absl::StatusOr<NcclId> NewId() override;
  absl::StatusOr<NcclGroup*> Begin(const NcclId& id, int rank, int size) override;
  absl::StatusOr<NcclProgress> Progress(NcclGroup* group) override;
  absl::Status AllGather(NcclGroup* group, const void* sent, void* received, size_t bytes) override;
  absl::Status AllToAll(NcclGroup* group, const void* sent, void* received, size_t bytes) override;
  void Abort(NcclGroup* group) override;

 private:
  // OK for what is done or under way.
  absl::Status StatusOf(ncclResult_t result, const char* call, NcclGroup* group) const;

  const NcclLibrary& nccl_;
  Gpu& gpu_;
};

}  // namespace sluice::cuda
