#include "kernels/cuda/ranks/peer_memory.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/communicator/file_handover.h"
#include "kernels/communicator/wiring_identity.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/gpu_ranks/agreement.h"

namespace sluice::cuda {
namespace {

const SealedMemoryKind& Kind() {
  static const auto& kind =
      *new SealedMemoryKind{.name = "sluice-flags-2", .noun = "group of flags"};
  return kind;
}

using Name = std::array<char, 64>;

// Of the socket over which the memory is handed over.
Name DrawName() {
  const WiringNonce bits = DrawWiringNonce();
  Name name;
  PutText(absl::StrCat(
              "sluice-flags-",
              absl::BytesToHexString({reinterpret_cast<const char*>(bits.data()), bits.size()})),
          name);
  return name;
}

std::string DescribeFlags(uint64_t bytes) { return absl::StrCat("flags of ", bytes, " bytes"); }

}  // namespace

absl::StatusOr<std::unique_ptr<PeerSlot>> PeerSlot::Create(size_t bytes, Gpu& gpu) {
  absl::StatusOr<std::shared_ptr<void>> memory = gpu.AllocateShared(bytes);
  if (!memory.ok()) return memory.status();
  const absl::StatusOr<GpuMemoryHandle> handle = gpu.HandleOf(memory->get());
  if (!handle.ok()) return handle.status();
  return std::unique_ptr<PeerSlot>(new PeerSlot(*std::move(memory), bytes, *handle));
}

void PeerSlot::Describe(GpuIntroduction& introduction) const {
  introduction.slots_handle = handle_;
  introduction.slots_bytes = bytes_;
}

absl::StatusOr<std::unique_ptr<PeerMappings>> PeerMappings::Open(
    absl::Span<const GpuIntroduction> ranks, int own_rank, const PeerSlot& own, Gpu& gpu) {
  std::unique_ptr<PeerMappings> mappings(new PeerMappings(gpu));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (static_cast<int>(rank) == own_rank) {
      mappings->slots_.push_back(own.data());
      continue;
    }
    const absl::StatusOr<Gpu::OpenedMemory> opened = gpu.OpenHandle(ranks[rank].slots_handle);
    if (!opened.ok()) return opened.status();
    mappings->opened_.push_back(opened->memory);
    mappings->slots_.push_back(static_cast<std::byte*>(opened->memory));
    const size_t bytes = opened->size_bytes != 0 ? opened->size_bytes : ranks[rank].slots_bytes;
    if (bytes < own.size()) {
      return absl::InternalError(absl::StrCat("rank ", rank, " has a slot of ", bytes,
                                              " bytes, and this one of ", own.size()));
    }
  }
  return mappings;
}

PeerMappings::~PeerMappings() {
  for (void* memory : opened_) gpu_.CloseHandle(memory);
}

size_t PeerFlagMemory::size_bytes() const { return num_ranks_ * sizeof(PeerFlags); }

absl::StatusOr<std::unique_ptr<PeerFlagMemory>> PeerFlagMemory::Map(const SealedMemory& file,
                                                                    int num_ranks) {
  const size_t bytes = num_ranks * sizeof(PeerFlags);
  if (file.size_bytes() != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(DescribeFlags(file.size_bytes()), "; expected ", bytes));
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map the ranks' flags");
  return std::unique_ptr<PeerFlagMemory>(new PeerFlagMemory(memory, num_ranks));
}

absl::Status PeerFlagMemory::Register(Gpu& gpu) {
  gpu.stream();
  SLUICE_RETURN_IF_CUDA_ERROR(cudaHostRegister(memory_, size_bytes(), cudaHostRegisterMapped));
  is_registered_ = true;
  void* on_gpu = nullptr;
  SLUICE_RETURN_IF_CUDA_ERROR(cudaHostGetDevicePointer(&on_gpu, memory_, 0));
  on_gpu_ = static_cast<std::byte*>(on_gpu);
  return absl::OkStatus();
}

PeerFlagMemory::~PeerFlagMemory() {
  if (is_registered_) ToldStatusOf(cudaHostUnregister(memory_), "cudaHostUnregister").IgnoreError();
  munmap(memory_, size_bytes());
}

absl::StatusOr<std::unique_ptr<PeerFlagMemory>> PeerFlagMemory::Meet(Communicator& communicator,
                                                                     Deadline deadline, Gpu& gpu) {
  const bool is_first = communicator.rank() == 0;
  const int num_ranks = communicator.size();
  const size_t bytes = num_ranks * sizeof(PeerFlags);
  Name name = DrawName();
  const auto spec = [&] {
    return HandoverSpec{.name = TextOf(name),
                        .wiring = communicator.wiring(),
                        .num_ranks = num_ranks,
                        .layout = bytes,
                        .describe_layout = DescribeFlags};
  };
  absl::StatusOr<SealedMemory> file = absl::UnavailableError("rank 0 has made no flags");
  absl::StatusOr<std::unique_ptr<PeerFlagMemory>> memory = file.status();
  std::unique_ptr<FileHandover> handover;
  if (is_first) {
    file = SealedMemory::Create(Kind(), bytes);
    memory = file.ok() ? Map(*file, num_ranks) : file.status();
    if (memory.ok()) {
      for (PeerFlags* flags : (*memory)->flags()) PeerExchange::Initialise(*flags);
      absl::StatusOr<std::unique_ptr<FileHandover>> listening =
          FileHandover::Listen(spec(), file->fd());
      if (listening.ok()) handover = *std::move(listening);
      if (!listening.ok()) memory = listening.status();
    }
    if (!memory.ok()) name.fill('\0');
  }
  absl::Status status = communicator.Broadcast(
      {reinterpret_cast<std::byte*>(name.data()), name.size()}, /*root=*/0, deadline);
  if (status.ok() && handover != nullptr) {
    status = handover->Serve(deadline, {}, [&communicator] { return communicator.Check(); });
  } else if (status.ok() && !is_first && name[0] != '\0') {
    absl::StatusOr<FileDescriptor> handed = TakeFile(spec(), communicator.rank(), deadline, {});
    file = handed.ok() ? SealedMemory::Adopt(Kind(), *std::move(handed)) : handed.status();
    memory = file.ok() ? Map(*file, num_ranks) : file.status();
  }
  absl::Status own = memory.status();
  if (own.ok()) own = (*memory)->Register(gpu);
  if (status.ok()) status = AllSucceeded(communicator, own, deadline);
  if (!status.ok()) return status;
  return memory;
}

std::vector<PeerFlags*> PeerFlagMemory::flags() const {
  std::vector<PeerFlags*> flags;
  flags.reserve(num_ranks_);
  for (int rank = 0; rank < num_ranks_; ++rank) {
    flags.push_back(static_cast<PeerFlags*>(memory_) + rank);
  }
  return flags;
}

uint64_t PeerFlagMemory::AddressOf(const PeerFlag& flag) const {
  const auto offset = reinterpret_cast<const std::byte*>(&flag) - static_cast<std::byte*>(memory_);
  return reinterpret_cast<uint64_t>(on_gpu_ + offset);
}

}  // namespace sluice::cuda
