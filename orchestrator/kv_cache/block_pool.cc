#include "orchestrator/kv_cache/block_pool.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

BlockPool::BlockPool(int32_t num_blocks) {
  SLUICE_CHECK(num_blocks >= 0);
  references_.resize(num_blocks, 0);
  free_.resize(num_blocks);
  std::iota(free_.rbegin(), free_.rend(), 0);  // block 0 goes first
}

std::optional<BlockId> BlockPool::Allocate() {
  if (free_.empty()) return std::nullopt;
  const BlockId block = free_.back();
  free_.pop_back();
  references_[block] = 1;
  return block;
}

void BlockPool::AddReference(BlockId block) {
  SLUICE_CHECK(references(block) > 0);
  ++references_[block];
}

void BlockPool::Release(BlockId block) {
  SLUICE_CHECK(references(block) > 0);
  if (--references_[block] == 0) free_.push_back(block);
}

int32_t BlockPool::references(BlockId block) const {
  SLUICE_CHECK(block >= 0 && block < num_total());
  return references_[block];
}

absl::Status BlockPool::CheckIntegrity() const {
  std::vector<int32_t> listed(references_.size(), 0);
  for (const BlockId block : free_) {
    if (block < 0 || block >= num_total()) {
      return absl::InternalError(
          absl::StrCat("free list: block ", block, " is outside a pool of ", num_total()));
    }
    ++listed[block];
  }
  for (BlockId block = 0; block < num_total(); ++block) {
    const int32_t expected = references_[block] == 0 ? 1 : 0;
    if (references_[block] < 0 || listed[block] != expected) {
      return absl::InternalError(absl::StrCat("block ", block, " has ", references_[block],
                                              " references and is ", listed[block],
                                              " times in the free list"));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
