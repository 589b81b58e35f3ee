#include "services/gateway/refused_calls.h"

#include <utility>

#include "services/process/log.h"

namespace sluice::gateway {
namespace {

constexpr size_t kMaxPeers = 64;  // more are counted together
constexpr char kOthers[] = "others";

}  // namespace

bool RefusedCalls::Add(absl::string_view peer) {
  absl::MutexLock lock(&mutex_);
  ++total_;
  const bool is_first = counts_.empty();
  auto count = counts_.find(peer);
  if (count == counts_.end()) {
    const bool is_full = counts_.size() >= kMaxPeers;
    count = counts_.try_emplace(is_full ? std::string(kOthers) : std::string(peer), 0).first;
  }
  ++count->second;
  return is_first;
}

void RefusedCalls::Flush() {
  std::map<std::string, int64_t, std::less<>> counts;
  {
    absl::MutexLock lock(&mutex_);
    counts = std::exchange(counts_, {});
  }
  for (const auto& [peer, count] : counts) {
    Log(LogLevel::kWarning, "gateway", "callers-refused", {{"peer", peer}, {"count", count}});
  }
}

int64_t RefusedCalls::total() const {
  absl::MutexLock lock(&mutex_);
  return total_;
}

}  // namespace sluice::gateway
