#include "kernels/cpu/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <numeric>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/check.h"

namespace sluice {

NumaLayout NumaLayout::OfPinnedWorkers(int num_workers, absl::Span<const int> nodes) {
  SLUICE_CHECK(num_workers > 0 && !nodes.empty());
  std::vector<int> of_worker(num_workers);
  for (int worker = 0; worker < num_workers; ++worker) {
    of_worker[worker] = nodes[worker % nodes.size()];
  }
  const std::set<int> all(of_worker.begin(), of_worker.end());
  if (all.size() == 1 || all.size() > kMostShares) return OfRoamingWorkers(num_workers, {});
  NumaLayout layout;
  for (const int node : all) layout.shares_.push_back({.nodes = {node}});
  for (const int node : of_worker) {
    const auto share = static_cast<int>(std::distance(all.begin(), all.find(node)));
    layout.share_of_worker_.push_back(share);
    ++layout.shares_[share].workers;
  }
  return layout;
}

NumaLayout NumaLayout::OfRoamingWorkers(int num_workers, std::vector<int> nodes) {
  SLUICE_CHECK(num_workers > 0);
  if (nodes.size() == 1) nodes.clear();
  NumaLayout layout;
  layout.shares_.push_back({.nodes = std::move(nodes), .workers = num_workers});
  layout.share_of_worker_.assign(num_workers, 0);
  return layout;
}

int64_t NumaLayout::FirstUnit(int share, int64_t count) const {
  SLUICE_CHECK(0 <= share && share <= num_shares());
  int64_t before = 0;
  for (int i = 0; i < share; ++i) before += shares_[i].workers;
  return count * before / static_cast<int64_t>(share_of_worker_.size());
}

std::vector<int> NumaLayout::Nodes() const {
  std::set<int> nodes;
  for (const NumaShare& share : shares_) nodes.insert(share.nodes.begin(), share.nodes.end());
  return {nodes.begin(), nodes.end()};
}

int NodeOfCpu(int cpu, const std::string& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(absl::StrCat(folder, "/cpu", cpu), error);
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename();
    absl::string_view number = name;
    int node = 0;
    if (absl::ConsumePrefix(&number, "node") && absl::SimpleAtoi(number, &node)) return node;
  }
  return 0;
}

std::vector<int> NodesOfThisProcess() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return {0};
  std::set<int> nodes;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable)) nodes.insert(NodeOfCpu(cpu));
  }
  return {nodes.begin(), nodes.end()};
}

void PlaceOnNodes(const void* data, size_t size_bytes, absl::Span<const int> nodes) {
  constexpr int kBits = 64;
  std::array<unsigned long, 16> mask{};  // what the system call is given
  for (const int node : nodes) {
    if (node < 0 || node >= static_cast<int>(mask.size()) * kBits) return;
    mask[node / kBits] |= 1UL << (node % kBits);
  }
  if (nodes.empty() || size_bytes == 0) return;
  const int mode = nodes.size() == 1 ? MPOL_PREFERRED : MPOL_INTERLEAVE;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(data) + size_bytes;
  // The system reads one bit less than it is told.
  syscall(SYS_mbind, begin, end - begin, mode, mask.data(), mask.size() * kBits + 1, 0);
}

}  // namespace sluice
