#include "services/shard/shard_stage.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/communicator/local_communicator.h"
#include "kernels/communicator/shm_communicator.h"
#include "kernels/communicator/tcp/tcp_communicator.h"
#include "services/shard/rank_security.h"

namespace sluice {

ShardStage::ShardStage(ShardStageOptions options, ShardModel* model, AdapterLibrary* adapters,
                       Backend* backend, Dialer* dialer)
    : options_(std::move(options)),
      model_(*model),
      adapters_(*adapters),
      backend_(*backend),
      dialer_(*dialer),
      ring_(*backend, options_.row_width,
            std::max(RowRing::kRows, 2 * int64_t{model->max_step_rows()})) {}

absl::Status ShardStage::CheckOpen(const v1::ShardOpen& open) const {
  if (open.num_kv_blocks() < 1 || open.num_kv_blocks() > model_.num_kv_blocks()) {
    return absl::FailedPreconditionError(absl::StrCat(
        open.num_kv_blocks(), " KV blocks; this shard has room for 1 to ", model_.num_kv_blocks()));
  }
  const int slots = model_.num_state_slots();
  if (slots > 0 && (open.num_state_slots() < 2 || open.num_state_slots() > slots)) {
    return absl::FailedPreconditionError(absl::StrCat(
        open.num_state_slots(), " slots for states; this shard has room for 2 to ", slots));
  }
  return absl::OkStatus();
}

absl::StatusOr<JoinRanks> ShardStage::JoinerFor(const v1::ShardOpen& open,
                                                const WiringIdentity& wiring) {
  const ShardPlacement& placement = options_.plan.placement;
  const std::string& name = open.communicator_name();
  const int rank = placement.rank;
  const int size = placement.num_ranks;
  if (size == 1) {
    return [wiring](Deadline, const std::stop_token&) { return MakeLocalCommunicator(wiring); };
  }
  if (open.communicator() == v1::COMMUNICATOR_KIND_SHM) {
    return [options = ShmOptions{.name = name, .wiring = wiring, .rank = rank, .size = size}](
               Deadline deadline, const std::stop_token& stop) {
      return JoinShm(options, deadline, stop);
    };
  }
  if (open.communicator() == v1::COMMUNICATOR_KIND_TCP) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
        dialer_.Dial(open.rendezvous_address(), Role::kShard);
    if (!channel.ok()) return channel.status();
    TcpOptions options = {.group = name,
                          .wiring = wiring,
                          .rank = rank,
                          .size = size,
                          .bind_address = options_.communicator_address,
                          .interface = options_.communicator_interface,
                          .trusted_network = options_.trusted_network};
    if (options_.tls.complete() && !options_.trusted_network) {
      options.tls = RankTlsOf(options_.tls);
    }
    return [options = std::move(options), channel = *channel](Deadline deadline,
                                                              const std::stop_token& stop) {
      RemoteRendezvousStore store(channel, options.wiring, deadline);
      return JoinTcp(options, store, deadline, stop);
    };
  }
  return absl::UnimplementedError(
      absl::StrCat("communicator ", v1::CommunicatorKind_Name(open.communicator()),
                   "; this shard has COMMUNICATOR_KIND_SHM and COMMUNICATOR_KIND_TCP"));
}

absl::StatusOr<std::shared_ptr<StageSession>> ShardStage::MakeSession(const StageOpening& opening) {
  const v1::ShardOpen& open = opening.open.shard();
  if (absl::Status status = CheckOpen(open); !status.ok()) return status;
  absl::StatusOr<JoinRanks> join = JoinerFor(open, opening.wiring);
  if (!join.ok()) return join.status();
  const ShardPlacement& placement = options_.plan.placement;
  const ShardParts parts = {.model = model_,
                            .adapters = adapters_,
                            .backend = backend_,
                            .ring = ring_,
                            .clock = clock_,
                            .hidden_size = options_.row_width,
                            .step_timeout = options_.step_timeout,
                            .is_last_stage = placement.stage == placement.num_stages - 1,
                            .num_stages = placement.num_stages,
                            .num_ranks = placement.num_ranks};
  std::shared_ptr<grpc::Channel> next_stage;
  if (placement.rank == 0) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> dialled = dialer_.Dial(
        opening.open.next_stage(), parts.is_last_stage ? Role::kSampler : Role::kShard);
    if (!dialled.ok()) return dialled.status();
    next_stage = *std::move(dialled);
  }
  return std::make_shared<ShardSession>(opening, parts, *std::move(join), std::move(next_stage));
}

void ShardStage::Describe(v1::GetStageInfoResponse& info) const {
  info.set_weight_bytes(model_.weight_bytes());
  info.set_arithmetic(model_.arithmetic());
  const ShardPlan& plan = options_.plan;
  v1::ShardInfo& shard = *info.mutable_shard();
  shard.set_stage(plan.placement.stage);
  shard.set_num_stages(plan.placement.num_stages);
  shard.set_rank(plan.placement.rank);
  shard.set_num_ranks(plan.placement.num_ranks);
  shard.set_first_layer(static_cast<int32_t>(plan.layers.begin));
  shard.set_num_layers(static_cast<int32_t>(plan.layers.size()));
  shard.set_block_size(model_.block_size());
  shard.set_num_kv_blocks(model_.num_kv_blocks());
  shard.set_num_state_slots(model_.num_state_slots());
  shard.set_kv_bytes(model_.kv_bytes());
  shard.set_backend(std::string(backend_.name()));
  shard.set_max_step_tokens(model_.max_step_rows());
}

grpc::ServerUnaryReactor* ShardStage::PutRendezvous(grpc::CallbackServerContext* context,
                                                    const v1::PutRendezvousRequest* request,
                                                    v1::PutRendezvousResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  rendezvous_.Put(*request, reactor);
  return reactor;
}

grpc::ServerUnaryReactor* ShardStage::GetRendezvous(grpc::CallbackServerContext*,
                                                    const v1::GetRendezvousRequest* request,
                                                    v1::GetRendezvousResponse* response) {
  return rendezvous_.Get(*request, response);
}

}  // namespace sluice
