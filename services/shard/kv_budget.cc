#include "services/shard/kv_budget.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/check.h"
#include "services/model/memory_plan.h"

namespace sluice {
namespace {

constexpr uint64_t kMostBlocks = std::numeric_limits<int>::max();
// Of a device's memory, for what kernels take while serving and for other programs' needs.
constexpr double kReserve = 0.02;

std::string Gibibytes(uint64_t bytes) {
  return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (uint64_t{1} << 30));
}

uint64_t Less(uint64_t from, uint64_t what) { return from > what ? from - what : 0; }

std::string WhatWouldFit(uint64_t blocks, const KvDemand& demand) {
  if (blocks == 0) return "not one block would fit";
  return absl::StrCat(blocks, " blocks would fit, ", blocks * demand.block_size,
                      " positions: --kv_cache_mib ", blocks * demand.bytes_per_block >> 20);
}

std::string WhereItIs(const DeviceRoom& room) {
  return absl::StrCat("of ", Gibibytes(room.memory.total_bytes), " the device has ",
                      Gibibytes(room.memory.free_bytes), " free, this shard holding ",
                      Gibibytes(room.held), " already");
}

}  // namespace

absl::StatusOr<KvCounts> CountsWithin(const KvDemand& demand) {
  SLUICE_CHECK(demand.bytes_per_block >= 1 && demand.num_state_slots >= 0);
  const KvRoom room = DivideKvBytes(demand.bytes, demand.bytes_per_block, demand.bytes_per_slot,
                                    static_cast<uint64_t>(demand.num_state_slots));
  if (room.num_blocks > 0) {
    return KvCounts{
        .num_blocks = static_cast<int>(std::min(room.num_blocks, kMostBlocks)),
        .num_state_slots = static_cast<int>(std::min(room.num_state_slots, kMostBlocks))};
  }
  const uint64_t states = room.num_state_slots * demand.bytes_per_slot;
  const std::string with_states =
      states == 0 ? "" : absl::StrCat(" and ", room.num_state_slots, " slots for states");
  return absl::InvalidArgumentError(
      absl::StrCat("kv_cache_bytes is ", demand.bytes,
                   "; accepted for this model: ", states + demand.bytes_per_block, ", a block of ",
                   demand.block_size, " positions", with_states, ", or more"));
}

absl::StatusOr<int> BlocksOnDevice(const KvDemand& demand, const DeviceRoom& room) {
  const auto total = static_cast<double>(room.memory.total_bytes);
  const uint64_t free = Less(room.memory.free_bytes, static_cast<uint64_t>(kReserve * total));
  const uint64_t fit = std::min(free / demand.bytes_per_block, kMostBlocks);
  if (demand.bytes > 0) {
    const absl::StatusOr<KvCounts> asked = CountsWithin(demand);
    if (!asked.ok()) return asked.status();
    if (static_cast<uint64_t>(asked->num_blocks) <= fit) return asked->num_blocks;
    return absl::ResourceExhaustedError(absl::StrCat("keys and values of ", Gibibytes(demand.bytes),
                                                     " do not fit: ", WhereItIs(room), "; ",
                                                     WhatWouldFit(fit, demand)));
  }
  const uint64_t share = Less(static_cast<uint64_t>(room.share * total), room.held);
  const uint64_t blocks = std::min(fit, share / demand.bytes_per_block);
  if (blocks > 0) return static_cast<int>(blocks);
  return absl::ResourceExhaustedError(
      absl::StrCat("no room for keys and values: ", WhereItIs(room), ", and may hold ",
                   absl::StrFormat("%.0f%%", 100 * room.share), "; ", WhatWouldFit(fit, demand)));
}

}  // namespace sluice
