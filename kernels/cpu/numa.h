// Memory near the threads that read it, on machines whose processors (NUMA nodes) have memory of
// their own each. On a machine with one node nothing of this does anything.
//
// Where threads are pinned to CPUs of several nodes, each matrix is cut into pieces of panels, one
// on each node as large as the node's part of the threads, and threads multiply their own node's
// panels first. Where threads roam over several nodes, pages of weights take turns on them; pages of
// keys and values do so in either case, because any thread may read any block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

// Some workers of a pool, and where what they read lies: on one node; in turns, page by page, on
// several; or, where it names none, wherever the system puts it.
struct NumaShare {
  std::vector<int> nodes;
  int workers = 0;

  bool operator==(const NumaShare&) const = default;
};

// How the workers of a pool share out what they read. A value.
class NumaLayout {
 public:
  static constexpr int kMostShares = 16;

  // Worker i stays on a CPU of node nodes[i % nodes.size()]: a share for each node, ascending. With
  // one node, or more than kMostShares, one share of no nodes.
  static NumaLayout OfPinnedWorkers(int num_workers, absl::Span<const int> nodes);
  // The workers run on any of these nodes: one share of all of them, of no nodes where it is one.
  static NumaLayout OfRoamingWorkers(int num_workers, std::vector<int> nodes);

  // At least one.
  absl::Span<const NumaShare> shares() const { return shares_; }
  int num_shares() const { return static_cast<int>(shares_.size()); }
  int ShareOf(int worker) const { return share_of_worker_[worker]; }
  // The first of a matrix's or a loop's `count` units that belongs to `share`, in proportion to the
  // workers; FirstUnit(num_shares(), count) is count.
  int64_t FirstUnit(int share, int64_t count) const;
  // All nodes of all shares, ascending.
  std::vector<int> Nodes() const;

 private:
  std::vector<NumaShare> shares_;
  std::vector<int> share_of_worker_;
};

// Node of a CPU, as `folder` tells (cpu3/node0); 0 where it does not.
int NodeOfCpu(int cpu, const std::string& folder = "/sys/devices/system/cpu");
// Of every CPU that this process may use, ascending.
std::vector<int> NodesOfThisProcess();

// Asks the system to put all pages that an area has a part of, once they are touched, on `nodes`, in
// turns where these are several; on others where they are full. Of no nodes: nothing. A wish: a
// system that refuses puts them anywhere.
void PlaceOnNodes(const void* data, size_t size_bytes, absl::Span<const int> nodes);

}  // namespace sluice
