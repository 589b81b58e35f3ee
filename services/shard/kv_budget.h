// Number of KV blocks of a shard: as configured, or as many as fit into the memory of its device.
// Pure functions.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace sluice {

struct KvDemand {
  uint64_t bytes = 0;  // asked for; 0: what the device has left of its share
  int block_size = 16;
  uint64_t bytes_per_block = 0;  // >= 1
  // Of a slot for states of recurrent layers, and how many were asked for. 0: none, and as
  // DivideKvBytes shares out the memory. On devices with memory of their own there are none.
  uint64_t bytes_per_slot = 0;
  int num_state_slots = 0;
};

// What `bytes` hold: blocks, 2^31 - 1 at most, and slots for states. INVALID_ARGUMENT where they hold
// not one block.
struct KvCounts {
  int num_blocks = 0;
  int num_state_slots = 0;
};
absl::StatusOr<KvCounts> CountsWithin(const KvDemand& demand);

struct DeviceRoom {
  DeviceMemory memory;  // once everything else is in it
  uint64_t held = 0;    // of it by this shard: weights and what a step computes with
  double share = 1;     // of the whole that the shard may hold, keys and values included
};

// Blocks on a device: as asked, or what fits into the shard's share and into what is free, less a
// reserve for what kernels take while serving. RESOURCE_EXHAUSTED, saying how many blocks would
// fit, where those asked for don't, or where not even one does.
absl::StatusOr<int> BlocksOnDevice(const KvDemand& demand, const DeviceRoom& room);

}  // namespace sluice
