#include "kernels/gpu_ranks/introduction.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/gpu/gpu_check.h"

namespace sluice {
namespace {

bool SameHost(const GpuIntroduction& a, const GpuIntroduction& b) {
  return TextOf(a.host) == TextOf(b.host);
}

bool SameGpu(const GpuIntroduction& a, const GpuIntroduction& b) { return a.gpu == b.gpu; }

// Two ranks that have it in common; {-1, -1} where none do.
std::pair<int, int> FirstPair(absl::Span<const GpuIntroduction> ranks,
                              bool (*in_common)(const GpuIntroduction&, const GpuIntroduction&)) {
  for (size_t a = 0; a < ranks.size(); ++a) {
    for (size_t b = a + 1; b < ranks.size(); ++b) {
      if (in_common(ranks[a], ranks[b])) return {static_cast<int>(a), static_cast<int>(b)};
    }
  }
  return {-1, -1};
}

absl::Status CheckWirings(absl::Span<const GpuIntroduction> ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const absl::Status same = CheckSameWiring(ranks[rank].wiring, ranks[0].wiring);
    if (same.ok()) continue;
    return absl::Status(
        same.code(),
        absl::StrCat("rank ", rank, " is not of the group of rank 0: ", same.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckNccl(absl::Span<const GpuIntroduction> ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string failure = TextOf(ranks[rank].nccl_failure);
    if (failure.empty()) continue;
    return absl::UnavailableError(absl::StrCat(
        "ranks with a GPU each exchange over NCCL, and rank ", rank, " has none: ", failure));
  }
  return absl::OkStatus();
}

// `sharing` says which ranks share a GPU.
absl::Status CheckSlots(absl::Span<const GpuIntroduction> ranks, const std::string& sharing) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string failure = TextOf(ranks[rank].slots_failure);
    if (failure.empty()) continue;
    return absl::UnavailableError(
        absl::StrCat(sharing, ", which NCCL refuses, and rank ", rank,
                     " has no memory that other processes may read: ", failure,
                     "; give each rank a GPU of its own (--device cuda:i)"));
  }
  return absl::OkStatus();
}

}  // namespace

bool InOneProcess(const GpuIntroduction& a, const GpuIntroduction& b) {
  return SameHost(a, b) && IsSameProcess(a.process, b.process);
}

bool RecordAlike(absl::Span<const GpuIntroduction> ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const GpuIntroduction& rank) {
    return rank.records_steps && rank.num_multiprocessors == ranks[0].num_multiprocessors;
  });
}

absl::StatusOr<GpuTransport> ChooseTransport(absl::Span<const GpuIntroduction> ranks) {
  if (absl::Status same = CheckWirings(ranks); !same.ok()) return same;
  if (FirstPair(ranks, InOneProcess).first >= 0) return GpuTransport::kHost;
  const auto [first, second] = FirstPair(ranks, SameGpu);
  if (first < 0) {
    const absl::Status nccl = CheckNccl(ranks);
    if (!nccl.ok()) return nccl;
    return GpuTransport::kNccl;
  }
  const auto elsewhere = std::find_if(ranks.begin(), ranks.end(), [&](const GpuIntroduction& rank) {
    return !SameHost(rank, ranks[0]);
  });
  const std::string sharing =
      absl::StrCat("ranks ", first, " and ", second, " share ", UuidText(ranks[first].gpu));
  if (elsewhere == ranks.end()) {
    const absl::Status slots = CheckSlots(ranks, sharing);
    if (!slots.ok()) return slots;
    return GpuTransport::kPeer;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      sharing, ", and rank ", elsewhere - ranks.begin(),
      " is on another host: give each rank a GPU of its own (--device cuda:i), or keep all on one "
      "host"));
}

}  // namespace sluice
