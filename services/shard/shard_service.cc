#include "services/shard/shard_service.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/communicator/local_communicator.h"
#include "kernels/communicator/shm_communicator.h"
#include "kernels/communicator/tcp/tcp_communicator.h"
#include "services/messages/wiring_message.h"
#include "services/process/log.h"
#include "services/shard/rank_security.h"
#include "services/stage/run_stream.h"

namespace sluice {

ShardService::ShardService(ShardServiceOptions options, ShardModel* model, Backend* backend,
                           Dialer* dialer, ProgressWatch* progress)
    : options_(std::move(options)),
      model_(model),
      backend_(backend),
      dialer_(dialer),
      ring_(*backend, options_.row_width,
            std::max(RowRing::kRows, 2 * int64_t{model->max_step_rows()})),
      worker_(progress) {}

grpc::ServerBidiReactor<v1::ShardRunRequest, v1::ShardRunResponse>* ShardService::Run(
    grpc::CallbackServerContext* context) {
  return ServeRunStream<ShardSession, v1::ShardRunRequest, v1::ShardRunResponse>(
      *context, [this, orchestrator = OrchestratorOf(*context)](const v1::ShardOpen& open,
                                                                ShardSession::Stream& stream) {
        return Open(orchestrator, open, stream);
      });
}

absl::Status ShardService::CheckOpen(const v1::ShardOpen& open) const {
  if (open.num_kv_blocks() < 1 || open.num_kv_blocks() > model_->num_kv_blocks()) {
    return absl::FailedPreconditionError(absl::StrCat(open.num_kv_blocks(),
                                                      " KV blocks; this shard has room for 1 to ",
                                                      model_->num_kv_blocks()));
  }
  const int slots = model_->num_state_slots();
  if (slots > 0 && (open.num_state_slots() < 2 || open.num_state_slots() > slots)) {
    return absl::FailedPreconditionError(absl::StrCat(
        open.num_state_slots(), " slots for states; this shard has room for 2 to ", slots));
  }
  return absl::OkStatus();
}

absl::StatusOr<JoinRanks> ShardService::JoinerFor(const v1::ShardOpen& open,
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
        dialer_->Dial(open.rendezvous_address(), Role::kShard);
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

absl::StatusOr<std::shared_ptr<ShardSession>> ShardService::Open(const std::string& orchestrator,
                                                                 const v1::ShardOpen& open,
                                                                 ShardSession::Stream& stream) {
  const absl::StatusOr<WiringIdentity> wiring = WiringToOpen(open, options_.model.fingerprint);
  if (!wiring.ok()) return wiring.status();
  absl::Status status = CheckOpen(open);
  if (!status.ok()) return status;
  absl::StatusOr<JoinRanks> join = JoinerFor(open, *wiring);
  if (!join.ok()) return join.status();
  const ShardPlacement& placement = options_.plan.placement;
  const ShardParts parts = {.model = *model_,
                            .backend = *backend_,
                            .receiver = receiver_,
                            .ring = ring_,
                            .clock = clock_,
                            .hidden_size = options_.row_width,
                            .step_timeout = options_.step_timeout,
                            .is_last_stage = placement.stage == placement.num_stages - 1,
                            .num_stages = placement.num_stages,
                            .num_ranks = placement.num_ranks,
                            .on_step = [this] {
                              ++num_steps_;
                              worker_.NoteStep();
                            }};
  std::shared_ptr<grpc::Channel> next_stage;
  if (placement.rank == 0) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> dialled =
        dialer_->Dial(open.next_stage(), parts.is_last_stage ? Role::kSampler : Role::kShard);
    if (!dialled.ok()) return dialled.status();
    next_stage = *std::move(dialled);
  }
  auto session = std::make_shared<ShardSession>(open, *wiring, parts, *std::move(join),
                                                stream.shared_from_this(), std::move(next_stage));
  status = worker_.Switch(orchestrator, open.epoch(), session);
  if (!status.ok()) return status;
  rendezvous_.KeepOnly(*wiring);
  Log(LogLevel::kInfo, "shard", "epoch-opened",
      {{"epoch", open.epoch()}, {"stage", placement.stage}, {"rank", placement.rank}});
  return session;
}

grpc::ServerUnaryReactor* ShardService::GetInfo(grpc::CallbackServerContext* context,
                                                const v1::GetShardInfoRequest*,
                                                v1::GetShardInfoResponse* response) {
  const ShardPlan& plan = options_.plan;
  response->set_model_name(options_.model.name);
  response->set_model_fingerprint(options_.model.fingerprint);
  response->set_weights_digest(options_.model.weights_digest);
  response->set_stage(plan.placement.stage);
  response->set_num_stages(plan.placement.num_stages);
  response->set_rank(plan.placement.rank);
  response->set_num_ranks(plan.placement.num_ranks);
  response->set_first_layer(static_cast<int32_t>(plan.layers.begin));
  response->set_num_layers(static_cast<int32_t>(plan.layers.size()));
  response->set_block_size(model_->block_size());
  response->set_num_kv_blocks(model_->num_kv_blocks());
  response->set_num_state_slots(model_->num_state_slots());
  response->set_epoch(worker_.epoch());
  response->set_num_steps(num_steps_);
  response->set_weight_bytes(model_->weight_bytes());
  response->set_kv_bytes(model_->kv_bytes());
  response->set_backend(std::string(backend_->name()));
  response->set_arithmetic(model_->arithmetic());
  response->set_max_step_tokens(model_->max_step_rows());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* ShardService::PutRendezvous(grpc::CallbackServerContext* context,
                                                      const v1::PutRendezvousRequest* request,
                                                      v1::PutRendezvousResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  rendezvous_.Put(*request, reactor);
  return reactor;
}

grpc::ServerUnaryReactor* ShardService::GetRendezvous(grpc::CallbackServerContext*,
                                                      const v1::GetRendezvousRequest* request,
                                                      v1::GetRendezvousResponse* response) {
  return rendezvous_.Get(*request, response);
}

}  // namespace sluice
