#include "orchestrator/pipeline/process_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

absl::Status CheckFingerprint(const std::string& fingerprint, const std::string& expected) {
  if (fingerprint == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it serves another model: fingerprint ", fingerprint, ", expected ", expected));
}

}  // namespace

absl::Status TakeInfo(const v1::GetEmbeddingInfoResponse& info, const std::string& fingerprint,
                      ReplicaProcess& process) {
  process.weight_bytes = info.weight_bytes();
  return CheckFingerprint(info.model_fingerprint(), fingerprint);
}

absl::Status TakeInfo(const v1::GetSamplerInfoResponse& info, const std::string& fingerprint,
                      ReplicaProcess& process) {
  process.weight_bytes = info.weight_bytes();
  process.arithmetic = info.arithmetic();
  return CheckFingerprint(info.model_fingerprint(), fingerprint);
}

absl::Status TakeInfo(const v1::GetShardInfoResponse& info, const std::string& fingerprint,
                      ReplicaProcess& process) {
  process.weight_bytes = info.weight_bytes();
  process.kv_bytes = info.kv_bytes();
  process.arithmetic = info.arithmetic();
  return CheckFingerprint(info.model_fingerprint(), fingerprint);
}

absl::Status TakePlace(const v1::GetShardInfoResponse& info, const Topology& topology,
                       const ReplicaProcess& process, KvGeometry& geometry) {
  if (info.stage() != process.stage || info.rank() != process.rank ||
      info.num_stages() != topology.num_stages() || info.num_ranks() != topology.num_ranks()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it is stage ", info.stage(), " of ", info.num_stages(), ", rank ", info.rank(), " of ",
        info.num_ranks(), "; expected stage ", process.stage, " of ", topology.num_stages(),
        ", rank ", process.rank, " of ", topology.num_ranks()));
  }
  if (geometry.block_size != 0 && geometry.block_size != info.block_size()) {
    return absl::FailedPreconditionError(absl::StrCat("its blocks hold ", info.block_size(),
                                                      " positions, those of other shards ",
                                                      geometry.block_size));
  }
  geometry.num_blocks = geometry.block_size == 0
                            ? info.num_kv_blocks()
                            : std::min(geometry.num_blocks, info.num_kv_blocks());
  geometry.block_size = info.block_size();
  return absl::OkStatus();
}

absl::Status CheckSteps(const v1::GetShardInfoResponse& info, int max_step_tokens) {
  if (info.max_step_tokens() >= max_step_tokens) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it computes steps of up to ", info.max_step_tokens(),
                   " positions, the orchestrator plans up to ", max_step_tokens,
                   ": give both the same --max_step_tokens"));
}

absl::Status CheckArithmetic(absl::Span<const ReplicaProcess> processes, size_t index,
                             absl::Span<const std::string> former) {
  const ReplicaProcess& process = processes[index];
  const auto differs = [&process](const std::string& from, const char* whose) {
    return absl::FailedPreconditionError(absl::StrCat("it computes with ", process.arithmetic, ", ",
                                                      whose, " with ", from,
                                                      "; the bits would differ"));
  };
  if (!former.empty() && process.arithmetic != former[index]) {
    return differs(former[index], "before it came back");
  }
  if (process.service != "shard") return absl::OkStatus();
  for (const ReplicaProcess& other : processes.first(index)) {
    if (other.service == "shard" && other.ready && other.arithmetic != process.arithmetic) {
      return differs(other.arithmetic, "other shards");
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
