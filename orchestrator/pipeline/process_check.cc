#include "orchestrator/pipeline/process_check.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "services/common/epoch.h"
#include "services/stage/stage.h"

namespace sluice {
namespace {

absl::Status CheckFingerprint(const std::string& fingerprint, const std::string& expected) {
  if (fingerprint == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it serves another model: fingerprint ", fingerprint, ", expected ", expected));
}

// What the orchestrator keeps books of: tens of bytes for each block.
constexpr int32_t kMaxBlocks = 1 << 26;
constexpr int32_t kMaxBlockSize = 1 << 16;

// Enough of it to tell two apart.
std::string ShortDigest(const std::string& digest) {
  return digest.empty() ? "of none" : digest.substr(0, 16);
}

}  // namespace

absl::Status TakeInfo(const v1::GetStageInfoResponse& info, const std::string& fingerprint,
                      ReplicaProcess& process) {
  const std::optional<Role> role = StageRoleOf(info);
  if (role != process.role) {
    return absl::FailedPreconditionError(absl::StrCat("its kind of stage is ",
                                                      role.has_value() ? Name(*role) : "unknown",
                                                      ", expected ", process.service()));
  }
  process.weight_bytes = info.weight_bytes();
  process.weights_digest = info.weights_digest();
  process.kv_bytes = info.shard().kv_bytes();
  process.arithmetic = info.arithmetic();
  return CheckFingerprint(info.model_fingerprint(), fingerprint);
}

absl::Status CheckEpoch(uint64_t epoch) {
  if (epoch < kMaxEpoch) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it reports epoch ", epoch, "; accepted: below ", kMaxEpoch));
}

absl::Status TakePlace(const v1::ShardInfo& info, const Topology& topology,
                       const ReplicaProcess& process, KvGeometry& geometry) {
  if (info.stage() != process.stage || info.rank() != process.rank ||
      info.num_stages() != topology.num_stages() || info.num_ranks() != topology.num_ranks()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it is stage ", info.stage(), " of ", info.num_stages(), ", rank ", info.rank(), " of ",
        info.num_ranks(), "; expected stage ", process.stage, " of ", topology.num_stages(),
        ", rank ", process.rank, " of ", topology.num_ranks()));
  }
  if (info.block_size() < 1 || info.block_size() > kMaxBlockSize) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its blocks hold ", info.block_size(), " positions; accepted: 1 to ", kMaxBlockSize));
  }
  if (info.num_kv_blocks() < 1 || info.num_kv_blocks() > kMaxBlocks) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has ", info.num_kv_blocks(), " blocks; accepted: 1 to ", kMaxBlocks));
  }
  if (geometry.block_size != 0 && geometry.block_size != info.block_size()) {
    return absl::FailedPreconditionError(absl::StrCat("its blocks hold ", info.block_size(),
                                                      " positions, those of other shards ",
                                                      geometry.block_size));
  }
  const int32_t states = info.num_state_slots();
  if (states < 0 || states == 1 || states > kMaxBlocks) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has ", states, " slots for states; accepted: 0, or 2 to ", kMaxBlocks));
  }
  if (states > 0) {
    geometry.num_state_slots =
        geometry.num_state_slots == 0 ? states : std::min(geometry.num_state_slots, states);
  }
  geometry.num_blocks = geometry.block_size == 0
                            ? info.num_kv_blocks()
                            : std::min(geometry.num_blocks, info.num_kv_blocks());
  geometry.block_size = info.block_size();
  return absl::OkStatus();
}

absl::Status CheckSteps(const v1::ShardInfo& info, int max_step_tokens) {
  if (info.max_step_tokens() >= max_step_tokens) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it computes steps of up to ", info.max_step_tokens(),
                   " positions, the orchestrator plans up to ", max_step_tokens,
                   ": give both the same --max_step_tokens"));
}

absl::Status CheckArithmetic(absl::Span<const ReplicaProcess> processes, size_t index) {
  const ReplicaProcess& process = processes[index];
  if (process.role != Role::kShard) return absl::OkStatus();
  for (const ReplicaProcess& other : processes.first(index)) {
    if (other.role != Role::kShard || !other.ready || other.arithmetic == process.arithmetic)
      continue;
    return absl::FailedPreconditionError(absl::StrCat("it computes with ", process.arithmetic,
                                                      ", other shards with ", other.arithmetic,
                                                      "; the bits would differ"));
  }
  return absl::OkStatus();
}

absl::Status CheckWeights(absl::Span<const ReplicaProcess> processes, size_t index) {
  const ReplicaProcess& process = processes[index];
  for (const ReplicaProcess& other : processes.first(index)) {
    if (!other.ready || other.weights_digest == process.weights_digest) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("its weight files hold other weights (SHA-256 ",
                     ShortDigest(process.weights_digest), ") than those of ", other.service(),
                     " at ", other.address, " (", ShortDigest(other.weights_digest), ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckTokenizer(const v1::GetTokenizerInfoResponse& info, const std::string& digest) {
  if (digest.empty() || info.tokenizer_digest() == digest) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it serves the tokenizer of another model: its files' SHA-256 is ",
                   ShortDigest(info.tokenizer_digest()), ", that of the orchestrator's model ",
                   ShortDigest(digest)));
}

}  // namespace sluice
