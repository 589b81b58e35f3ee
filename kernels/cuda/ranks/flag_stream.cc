#include "kernels/cuda/ranks/flag_stream.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/driver_call.h"

namespace sluice::cuda {
namespace {

absl::StatusOr<FlagCalls> FindAll() {
  const auto wait = FindDriverCall<decltype(FlagCalls::wait)>("cuStreamWaitValue32");
  if (!wait.ok()) return wait.status();
  const auto write = FindDriverCall<decltype(FlagCalls::write)>("cuStreamWriteValue32");
  if (!write.ok()) return write.status();
  return FlagCalls{.wait = *wait, .write = *write};
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
