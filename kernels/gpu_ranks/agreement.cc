#include "kernels/gpu_ranks/agreement.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/gpu_ranks/introduction.h"

namespace sluice {
namespace {

// What an exchange costs beside its bytes, and how fast GPUs of one host exchange them: round
// figures for NVLink, to be replaced by measured ones.
constexpr double kExchangeSeconds = 10e-6;
constexpr double kBytesPerSecond = 300e9;

using Words = std::array<char, 256>;

}  // namespace

absl::Status AllSucceeded(Communicator& communicator, const absl::Status& own, Deadline deadline) {
  Words words;
  PutText(own.ok() ? "" : absl::StrCat(own.message(), own.message().empty() ? "failed" : ""),
          words);
  std::vector<Words> all(communicator.size());
  const absl::Status told = communicator.AllGather(
      {reinterpret_cast<const std::byte*>(words.data()), words.size()},
      {reinterpret_cast<std::byte*>(all.data()), all.size() * words.size()}, deadline);
  if (!told.ok()) return told;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const std::string failure = TextOf(all[rank]);
    if (!failure.empty()) return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", failure));
  }
  return absl::OkStatus();
}

size_t GatherBytesOnGpus(int num_ranks) {
  const double more = (num_ranks - 1) - 2.0 * (num_ranks - 1) / num_ranks;
  if (more <= 0) return std::numeric_limits<size_t>::max();
  return static_cast<size_t>(kExchangeSeconds * kBytesPerSecond / more);
}

}  // namespace sluice
