#include "kernels/cuda/ranks/flag_stream.h"

#include <cuda_runtime_api.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice::cuda {
namespace {

constexpr unsigned kSinceVersion = 12000;  // of CUDA: these calls need no option of the driver's

template <class Function>
absl::Status Find(const char* name, Function& into) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, kSinceVersion, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
    return absl::UnavailableError(absl::StrCat("the driver has no ", name));
  }
  into = reinterpret_cast<Function>(found);
  return absl::OkStatus();
}

absl::StatusOr<FlagCalls> FindAll() {
  FlagCalls calls{};
  absl::Status status = Find("cuStreamWaitValue32", calls.wait);
  if (status.ok()) status = Find("cuStreamWriteValue32", calls.write);
  if (!status.ok()) return status;
  return calls;
}

absl::Status StatusOf(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, " failed with ", static_cast<int>(result)));
}

}  // namespace

const absl::StatusOr<FlagCalls>& FlagCalls::Get() {
  static const auto& calls = *new absl::StatusOr<FlagCalls>(FindAll());
  return calls;
}

absl::Status FlagStream::Copy(const void* from, void* to, size_t bytes) {
  gpu_.Copy(to, from, bytes);
  return absl::OkStatus();
}

absl::Status FlagStream::Await(PeerFlag& flag) {
  const auto stream = static_cast<CUstream>(gpu_.stream());
  const absl::Status waits =
      StatusOf(calls_.wait(stream, flags_.AddressOf(flag), 1, CU_STREAM_WAIT_VALUE_EQ),
               "cuStreamWaitValue32");
  return waits.ok() ? Write(flag, 0) : waits;
}

absl::Status FlagStream::Set(PeerFlag& flag) { return Write(flag, 1); }

// The write comes after all that was enqueued before it, with a fence.
absl::Status FlagStream::Write(PeerFlag& flag, uint32_t value) {
  const auto stream = static_cast<CUstream>(gpu_.stream());
  return StatusOf(
      calls_.write(stream, flags_.AddressOf(flag), value, CU_STREAM_WRITE_VALUE_DEFAULT),
      "cuStreamWriteValue32");
}

}  // namespace sluice::cuda
