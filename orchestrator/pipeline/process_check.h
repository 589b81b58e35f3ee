// Checks that the processes of a replica fit together, by the information they report. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "orchestrator/pipeline/replica.h"
#include "orchestrator/pipeline/topology.h"
#include "sluice/v1/stage.pb.h"
#include "sluice/v1/tokenizer.pb.h"

namespace sluice {

// Takes over what the process told of itself. FAILED_PRECONDITION where it is a stage of another
// kind, or serves another model than `fingerprint` names.
absl::Status TakeInfo(const v1::GetStageInfoResponse& info, const std::string& fingerprint,
                      ReplicaProcess& process);

// FAILED_PRECONDITION where a process reports an epoch that no stage reports (StageWorker::epoch).
absl::Status CheckEpoch(uint64_t epoch);

// FAILED_PRECONDITION where the shard stands elsewhere than `process` in `topology`, or its blocks
// are of another size than `geometry` says (0: of any), or of a size or number that no orchestrator
// can use; the smallest number of blocks is kept.
absl::Status TakePlace(const v1::ShardInfo& info, const Topology& topology,
                       const ReplicaProcess& process, KvGeometry& geometry);

// FAILED_PRECONDITION where the shard computes smaller steps than will be sent.
absl::Status CheckSteps(const v1::ShardInfo& info, int max_step_tokens);

// FAILED_PRECONDITION where process `index` is a shard that computes with other bits than the
// shards before it that are ready.
absl::Status CheckArithmetic(absl::Span<const ReplicaProcess> processes, size_t index);

// FAILED_PRECONDITION where process `index` has other weights than those before it that are ready.
absl::Status CheckWeights(absl::Span<const ReplicaProcess> processes, size_t index);

// FAILED_PRECONDITION where the tokenizer was made of other files than those of `digest`, that of
// the orchestrator's own folder; empty: it has none.
absl::Status CheckTokenizer(const v1::GetTokenizerInfoResponse& info, const std::string& digest);

}  // namespace sluice
