// What the ranks of a group tell each other before anything passes between their GPUs, and what
// follows: how it is to pass. Pure values and functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/communicator/process_identity.h"
#include "kernels/communicator/wiring_identity.h"
#include "kernels/gpu/gpu_facts.h"

namespace sluice {

// Plain data, exchanged as bytes between processes of one build: a rank of another would not have
// the same arithmetic either.
struct GpuIntroduction {
  WiringIdentity wiring;
  GpuUuid gpu{};
  HostBootId host{};  // pids and memory are of one host alone
  ProcessIdentity process;
  // What opens, in other processes on this host, memory for exchanges on one GPU.
  std::array<std::byte, 64> slots_handle{};
  uint64_t slots_bytes = 0;
  // Why there is none; empty where there is.
  std::array<char, 256> slots_failure{};
  // Why this rank can't take part over NCCL; empty where it can.
  std::array<char, 256> nccl_failure{};
  // What a step's recording is like (RecordAlike).
  int32_t num_multiprocessors = 0;
  bool records_steps = true;
};

// Cuts the text to what fits.
template <size_t N>
void PutText(const std::string& text, std::array<char, N>& into) {
  into.fill('\0');
  text.copy(into.data(), N - 1);
}
// What was put, whatever a peer has written behind it.
template <size_t N>
std::string TextOf(const std::array<char, N>& from) {
  return std::string(from.data(), from.data() + strnlen(from.data(), N));
}

enum class GpuTransport {
  // Some are threads of one process: none of their streams may wait for another, since CUDA may make
  // the thread that would enqueue what is waited for wait for that stream.
  kHost,
  kNccl,  // each rank is a process and has a GPU of its own
  kPeer,  // some share a GPU, which NCCL refuses: all are processes on one host
};

// The same on every rank. ABORTED where ranks belong to different wirings; FAILED_PRECONDITION
// where ranks share a GPU and are not all on one host; UNAVAILABLE naming the rank that lacks NCCL,
// or memory that others may read, where it is needed.
absl::StatusOr<GpuTransport> ChooseTransport(absl::Span<const GpuIntroduction> ranks);

// Whether the ranks of a stage would record the same steps at the same time, which NCCL wants of
// those that do: each can, and plans a step for as many multiprocessors.
bool RecordAlike(absl::Span<const GpuIntroduction> ranks);

// Whether two ranks are threads of one process.
bool InOneProcess(const GpuIntroduction& a, const GpuIntroduction& b);

}  // namespace sluice
