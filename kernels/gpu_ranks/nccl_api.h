// The calls of NCCL that ranks on several GPUs need, as an interface: the library itself is opened
// at run time (kernels/cuda/ranks), and tests have one that fails at will. No NCCL header.
#pragma once

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// What rank 0 draws and every rank of a group begins with.
using NcclId = std::array<std::byte, 128>;

// A rank's part in a group, owned by the library.
struct NcclGroup;

enum class NcclProgress { kDone, kUnderWay };

// Groups are non-blocking: what is under way when a call returns is asked for with Progress(), and
// no other call may be made before it is done. Belongs to one thread.
class NcclApi {
 public:
  virtual ~NcclApi() = default;

  virtual absl::StatusOr<NcclId> NewId() = 0;

  // Begins to meet the other ranks.
  virtual absl::StatusOr<NcclGroup*> Begin(const NcclId& id, int rank, int size) = 0;

  // How far the last call has come, or the group's failure: of its own, or a peer's where NCCL
  // notices (it notices none of a process that hangs).
  virtual absl::StatusOr<NcclProgress> Progress(NcclGroup* group) = 0;

  // Enqueue on the backend's stream; `bytes` are those that a rank sends to each other rank.
  virtual absl::Status AllGather(NcclGroup* group, const void* sent, void* received,
                                 size_t bytes) = 0;
  virtual absl::Status AllToAll(NcclGroup* group, const void* sent, void* received,
                                size_t bytes) = 0;

  // Ends the group, whatever is under way, also on the GPU: work behind it in the stream goes on. Where
  // recordings of work name the group, NCCL waits until they are gone: they are destroyed before.
  virtual void Abort(NcclGroup* group) = 0;
};

}  // namespace sluice
