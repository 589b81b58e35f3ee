// NCCL as found on this machine, opened when it is first needed: without it everything works that
// needs no two GPUs.
#pragma once

#include <nccl.h>

#include "absl/status/statusor.h"

namespace sluice::cuda {

struct NcclLibrary {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) init_rank;
  decltype(&ncclCommGetAsyncError) get_async_error;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclGetErrorString) error_text;
  decltype(&ncclGetLastError) last_error;

  // The one of this process. NOT_FOUND naming what was tried; FAILED_PRECONDITION where it is older
  // than non-blocking groups need, 2.18. Thread-safe; looked for once.
  static const absl::StatusOr<NcclLibrary>& Get();
};

}  // namespace sluice::cuda
