#include "services/embedding/embedding_stage.h"

#include <cstdint>
#include <utility>

#include "services/embedding/embedding_session.h"
#include "services/security/local_address.h"

namespace sluice {

absl::StatusOr<std::shared_ptr<StageSession>> EmbeddingStage::MakeSession(
    const StageOpening& opening) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> next_stage =
      dialer_.Dial(opening.open.next_stage(), Role::kShard);
  if (!next_stage.ok()) return next_stage.status();
  const std::string& address = opening.open.embedding().sampler();
  absl::StatusOr<std::shared_ptr<grpc::Channel>> sampler = dialer_.Dial(address, Role::kSampler);
  if (!sampler.ok()) return sampler.status();
  return std::make_shared<EmbeddingSession>(
      opening, table_, adapters_, backend_,
      StagePeers{.next_stage = *std::move(next_stage),
                 .ring = &ring_,
                 .sampler = *std::move(sampler),
                 .sampler_lane = IsUnixAddress(address) ? LaneUse::kOffered : LaneUse::kNone});
}

void EmbeddingStage::Describe(v1::GetStageInfoResponse& info) const {
  info.set_weight_bytes(table_.weight_bytes());
  v1::EmbeddingInfo& embedding = *info.mutable_embedding();
  embedding.set_vocabulary_size(static_cast<int32_t>(table_.vocab_size()));
  embedding.set_hidden_size(static_cast<int32_t>(table_.hidden_size()));
}

}  // namespace sluice
