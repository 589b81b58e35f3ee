#include "orchestrator/kv_cache/kv_cache.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

absl::Status Validate(const KvCacheOptions& options) {
  if (options.num_blocks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_blocks is ", options.num_blocks, "; a KV cache needs at least 1 block"));
  }
  if (options.block_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("block_size is ", options.block_size, "; a block has at least 1 position"));
  }
  return absl::OkStatus();
}

KvCache::KvCache(const KvCacheOptions& options) : options_(options), pool_(options.num_blocks) {
  SLUICE_CHECK(Validate(options).ok());
}

absl::Status KvCache::Reserve(SequenceId sequence, int32_t num_positions) {
  const auto held = static_cast<int32_t>(BlockTable(sequence).size());
  const int32_t missing = BlocksFor(num_positions) - held;
  if (missing <= 0) return absl::OkStatus();
  if (missing > num_free_blocks()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("sequence ", sequence, " needs ", missing, " more blocks for ", num_positions,
                     " positions; ", num_free_blocks(), " of ", num_total_blocks(), " are free"));
  }
  std::vector<BlockId>& table = tables_[sequence];
  for (int32_t i = 0; i < missing; ++i) table.push_back(*pool_.Allocate());
  return absl::OkStatus();
}

void KvCache::Release(SequenceId sequence) {
  const auto it = tables_.find(sequence);
  if (it == tables_.end()) return;
  // Backwards, so that the free list hands the blocks out again in position order.
  for (auto block = it->second.rbegin(); block != it->second.rend(); ++block) pool_.Release(*block);
  tables_.erase(it);
}

int32_t KvCache::SharePrefix(SequenceId from, SequenceId to, int32_t num_positions) {
  SLUICE_CHECK(!tables_.contains(to) && num_positions >= 0);
  const absl::Span<const BlockId> table = BlockTable(from);
  const auto whole = static_cast<size_t>(num_positions / options_.block_size);
  const absl::Span<const BlockId> prefix = table.first(std::min(whole, table.size()));
  if (prefix.empty()) return 0;
  std::vector<BlockId> shared(prefix.begin(), prefix.end());
  for (const BlockId block : shared) pool_.AddReference(block);
  const auto num_blocks = static_cast<int32_t>(shared.size());
  tables_.emplace(to, std::move(shared));
  return num_blocks * options_.block_size;
}

absl::Span<const BlockId> KvCache::BlockTable(SequenceId sequence) const {
  const auto it = tables_.find(sequence);
  if (it == tables_.end()) return {};
  return it->second;
}

int32_t KvCache::BlocksFreedBy(absl::Span<const SequenceId> sequences) const {
  std::vector<int32_t> given_back(pool_.num_total(), 0);  // by block
  int32_t freed = 0;
  for (const SequenceId sequence : sequences) {
    for (const BlockId block : BlockTable(sequence)) {
      if (++given_back[block] == pool_.references(block)) ++freed;
    }
  }
  return freed;
}

int32_t KvCache::BlocksFor(int32_t num_positions) const {
  SLUICE_CHECK(num_positions >= 0);
  // Not (n + size - 1) / size, which overflows near the largest int.
  return num_positions / options_.block_size + (num_positions % options_.block_size != 0);
}

KvCacheStatistics KvCache::statistics() const {
  KvCacheStatistics result = {.block_size = options_.block_size,
                              .total_blocks = pool_.num_total(),
                              .used_blocks = pool_.num_used(),
                              .free_blocks = pool_.num_free(),
                              .num_sequences = static_cast<int32_t>(tables_.size())};
  for (BlockId block = 0; block < pool_.num_total(); ++block) {
    result.shared_blocks += pool_.references(block) > 1;
  }
  return result;
}

absl::Status KvCache::CheckIntegrity() const {
  if (absl::Status status = pool_.CheckIntegrity(); !status.ok()) return status;
  std::vector<int32_t> named(pool_.num_total(), 0);
  for (const auto& [sequence, table] : tables_) {
    std::vector<BlockId> sorted = table;
    std::sort(sorted.begin(), sorted.end());
    if (table.empty() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      return absl::InternalError(
          absl::StrCat("the table of sequence ", sequence, " is empty or has a block twice"));
    }
    for (const BlockId block : table) ++named[block];
  }
  for (BlockId block = 0; block < pool_.num_total(); ++block) {
    if (named[block] != pool_.references(block)) {
      return absl::InternalError(absl::StrCat("block ", block, " has ", pool_.references(block),
                                              " references and is in ", named[block], " tables"));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
