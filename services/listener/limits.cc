#include "services/listener/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "kernels/usable_memory.h"

namespace sluice {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLeastMemory = 16 * kMiB;
constexpr uint64_t kMostMemory = 1024 * kMiB;
// What gRPC 1.51 holds of a connection with TLS, and of a stream that waits (measured, rounded up).
constexpr uint64_t kConnectionBytes = 128 << 10;
constexpr uint64_t kStreamBytes = 16 << 10;
constexpr uint64_t kOwnDescriptors = 128;
constexpr uint64_t kLeastConnections = 16;

uint64_t PhysicalMemory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  return static_cast<uint64_t>(std::max<int64_t>(pages, 1) * std::max<int64_t>(page_bytes, 1));
}

}  // namespace

ListenerLimits LimitsFor(uint64_t memory_bytes, uint64_t descriptors) {
  const uint64_t bytes = std::clamp(memory_bytes / 4, kLeastMemory, kMostMemory);
  const uint64_t by_memory = bytes / 2 / kConnectionBytes;
  const uint64_t by_descriptors =
      descriptors > kOwnDescriptors ? (descriptors - kOwnDescriptors) / 2 : 0;
  ListenerLimits limits;
  limits.connections =
      static_cast<int>(std::max(std::min(by_memory, by_descriptors), kLeastConnections));
  limits.connections_per_host = std::max(limits.connections / 2, 8);
  limits.streams = static_cast<int>(bytes / 4 / kStreamBytes);
  limits.held_bytes = bytes / 2;
  limits.message_bytes = static_cast<int>(std::min(limits.held_bytes / 2, 64 * kMiB));
  return limits;
}

ListenerLimits LimitsOfThisProcess() {
  rlimit descriptors = {};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) descriptors.rlim_cur = 1024;
  return LimitsFor(std::min(MemoryLimit(""), PhysicalMemory()), descriptors.rlim_cur);
}

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace sluice
