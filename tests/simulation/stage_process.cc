// A simulated process as its peers see it: streams, sessions under epochs, ranks that join.
#include "tests/simulation/stage_process.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/messages/wiring_message.h"

namespace sluice::simulation {
namespace {

std::string ShardAddress(int stage, int rank) { return absl::StrCat("shard-", stage, "-", rank); }

}  // namespace

StageProcess::StageProcess(StageWorld* world, Kind kind, std::string address, int stage, int rank)
    : world_(*world),
      kind_(kind),
      address_(std::move(address)),
      host_(world->host(address_)),
      stage_(stage),
      rank_(rank),
      // No two processes at one address begin at one time.
      tenure_(1 + absl::ToInt64Nanoseconds(world_.timeline->elapsed())) {
  if (kind_ != Kind::kShard) return;
  memory_.resize(static_cast<size_t>(world_.options.num_blocks) * world_.options.block_size);
  for (uint64_t& slot : memory_)
    slot = world_.chance->Number();  // nobody may count on what is there
}

StageProcess::~StageProcess() = default;

v1::GetStageInfoResponse StageProcess::Info() const {
  v1::GetStageInfoResponse info;
  info.set_model_fingerprint("fake");
  info.set_epoch(epoch_);
  info.set_tenure(tenure_.number());
  if (kind_ == Kind::kEmbedding) info.mutable_embedding();
  if (kind_ == Kind::kSampler) info.mutable_sampler();
  if (kind_ != Kind::kShard) return info;
  info.set_arithmetic("fake");
  v1::ShardInfo& shard = *info.mutable_shard();
  shard.set_stage(stage_);
  shard.set_num_stages(world_.options.num_stages);
  shard.set_rank(rank_);
  shard.set_num_ranks(world_.options.num_ranks);
  shard.set_block_size(world_.options.block_size);
  shard.set_num_kv_blocks(world_.options.num_blocks);
  shard.set_max_step_tokens(512);
  return info;
}

void StageProcess::SpoilSlot() {
  if (!memory_.empty()) memory_[world_.chance->Number() % memory_.size()] ^= 1;
}

void StageProcess::Later(absl::Duration delay, const std::shared_ptr<Session>& session,
                         std::function<void()> what) {
  world_.timeline->After(delay, [this, alive = weak_from_this(), session, what = std::move(what)] {
    if (alive.expired() || session->closed) return;
    const SteadyTime hung = world_.network->hung_until(host_);
    if (hung > world_.timeline->now()) {
      return Later(hung - world_.timeline->now(), session, what);
    }
    what();
  });
}

// ---- Sessions ----

void StageProcess::Serve(const std::shared_ptr<StageRun>& run) {
  run->on_request = [this, run = run.get(),
                     session = std::shared_ptr<Session>()](v1::StageRunRequest request) mutable {
    if (request.has_open()) {
      OpenSession(run->shared_from_this(), request.open());
      session = session_;
    } else if (request.has_execute() && session != nullptr) {
      AddPlan(session, std::move(*request.mutable_execute()));
    }
  };
}

void StageProcess::OpenSession(const std::shared_ptr<StageRun>& run, const v1::StageOpen& open) {
  // The connection holds the session, so that the session must not hold the connection.
  const auto close = [weak =
                          std::weak_ptr<Connection>(run->connection)](const absl::Status& status) {
    if (const auto connection = weak.lock()) connection->Close(Connection::kServer, status);
  };
  const std::string& orchestrator = world_.network->name(run->connection->client());
  const absl::Status free = tenure_.Check(orchestrator, world_.timeline->now());
  if (!free.ok()) return close(free);
  if (open.epoch() <= epoch_) {
    return close(absl::AbortedError(absl::StrCat("epoch ", open.epoch(), " is not newer")));
  }
  const absl::StatusOr<WiringIdentity> wiring = WiringOf(open);
  if (!wiring.ok()) return close(wiring.status());
  epoch_ = open.epoch();
  if (session_ != nullptr) CloseSession(session_, absl::AbortedError("replaced by a newer epoch"));
  auto session = std::make_shared<Session>();
  session_ = session;
  session->wiring = *wiring;
  session->stream = tenure_.Begin(orchestrator, open.orchestrator_nonce());
  session->close = close;
  const std::weak_ptr<StageRun> weak = run;
  session->send_opened = [weak, wiring = *wiring] {
    const std::shared_ptr<StageRun> run = weak.lock();
    if (run == nullptr) return;
    v1::StageRunResponse response;
    SetWiring(wiring, *response.mutable_opened());
    StageRun::SendResponse(run, std::move(response));
  };
  session->answer = [weak](v1::StageRunResponse response) {
    if (const auto run = weak.lock()) StageRun::SendResponse(run, std::move(response));
  };
  run->connection->on_end[Connection::kServer] = [this, session](const absl::Status&) {
    CloseSession(session, absl::CancelledError("the orchestrator ended the stream"));
  };
  if (kind_ == Kind::kShard) {
    session->communicator = open.shard().communicator_name();
    Later(absl::Microseconds(50), session,
          [this, session, next = open.next_stage(),
           give_up = world_.timeline->now() + absl::Milliseconds(open.open_timeout_ms())] {
            JoinRanks(session, next, give_up);
          });
  } else if (kind_ == Kind::kEmbedding) {
    DialNext(session, open.next_stage());
    DialSampler(session, open.embedding().sampler());
  } else {
    Ready(session);
  }
}

void StageProcess::CloseSession(const std::shared_ptr<Session>& session,
                                const absl::Status& status) {
  tenure_.End(session->stream, world_.timeline->now());
  if (std::exchange(session->closed, true)) return;
  session->close(status);
  if (session->to_next != nullptr) {
    session->to_next->connection->Close(Connection::kClient, status);
  }
  if (session->to_sampler != nullptr) {
    session->to_sampler->connection->Close(Connection::kClient, status);
  }
  if (const auto follower = session->follower.lock()) {
    follower->connection->Close(Connection::kServer, status);
  }
}

StageProcess* StageProcess::PeerOf(const Session& session, int rank) const {
  StageProcess* peer = world_.find(ShardAddress(stage_, rank));
  const bool joined = peer != nullptr && peer->session_ != nullptr && !peer->session_->closed &&
                      peer->session_->communicator == session.communicator &&
                      CheckSameWiring(peer->session_->wiring, session.wiring).ok();
  return joined ? peer : nullptr;
}

// Waits for the other ranks of the stage.
void StageProcess::JoinRanks(const std::shared_ptr<Session>& session, const std::string& next_stage,
                             SteadyTime give_up) {
  const auto try_once = [this, session, next_stage, give_up](const auto& again) -> void {
    bool all = true;
    for (int rank = 0; rank < world_.options.num_ranks; ++rank) {
      all = all && PeerOf(*session, rank) != nullptr;
    }
    if (all && rank_ == 0) return DialNext(session, next_stage);
    if (all) return Ready(session);
    if (world_.timeline->now() >= give_up) {
      return CloseSession(session, absl::DeadlineExceededError("joining the ranks of the stage"));
    }
    Later(absl::Milliseconds(1), session, [again] { again(again); });
  };
  try_once(try_once);
}

void StageProcess::DialNext(const std::shared_ptr<Session>& session,
                            const std::string& next_stage) {
  auto push = std::make_shared<PushStream>();
  push->connection = world_.network->Connect(host_, world_.host(next_stage));
  session->to_next = push;
  const std::weak_ptr<Session> weak = session;
  push->handler.on_response = [this, weak](const PushAccepted&) {
    const auto session = weak.lock();
    if (session == nullptr || session->closed) return;
    const int num_dialled = kind_ == Kind::kEmbedding ? 2 : 1;
    if (++session->num_accepted == num_dialled) Ready(session);
  };
  push->connection->on_end[Connection::kClient] = [this, weak](const absl::Status& status) {
    const auto session = weak.lock();
    if (session == nullptr) return;
    CloseSession(session, absl::UnavailableError(
                              absl::StrCat("next stage: ", std::string(status.message()))));
  };
  push->connection->Send(Connection::kServer, [find = world_.find, next_stage, push] {
    StageProcess* next = find(next_stage);
    if (next != nullptr) next->Serve(push);
  });
  PushStream::SendRequest(push, {.wiring = session->wiring});
}

// What the embedding hears of the sampler.
void StageProcess::DialSampler(const std::shared_ptr<Session>& session,
                               const std::string& sampler) {
  auto follow = std::make_shared<FollowStream>();
  follow->connection = world_.network->Connect(host_, world_.host(sampler));
  session->to_sampler = follow;
  const std::weak_ptr<Session> weak = session;
  follow->handler.on_response = [this, weak](ChosenMessage message) {
    const auto session = weak.lock();
    if (session == nullptr || session->closed) return;
    if (message.step_id == 0) {
      if (++session->num_accepted == 2) Ready(session);
      return;
    }
    session->chosen[message.step_id] = std::move(message.tokens);
    ComputeNext(session);
  };
  follow->connection->on_end[Connection::kClient] = [this, weak](const absl::Status& status) {
    const auto session = weak.lock();
    if (session == nullptr) return;
    CloseSession(session,
                 absl::UnavailableError(absl::StrCat("sampler: ", std::string(status.message()))));
  };
  follow->connection->Send(Connection::kServer, [find = world_.find, sampler, follow] {
    StageProcess* process = find(sampler);
    if (process != nullptr) process->Serve(follow);
  });
  FollowStream::SendRequest(follow, {.wiring = session->wiring});
}

void StageProcess::Serve(const std::shared_ptr<FollowStream>& follow) {
  const std::weak_ptr<FollowStream> weak = follow;
  follow->on_request = [this, weak](const FollowMessage& message) {
    const auto follow = weak.lock();
    const bool current = session_ != nullptr && !session_->closed && session_->receiving &&
                         CheckSameWiring(message.wiring, session_->wiring).ok();
    if (!current) {
      return follow->connection->Close(Connection::kServer,
                                       absl::AbortedError("not wired into this epoch"));
    }
    session_->follower = follow;
    FollowStream::SendResponse(follow, {});
  };
}

void StageProcess::Ready(const std::shared_ptr<Session>& session) {
  session->receiving = true;
  session->send_opened();
}

// What the stage before sends.
void StageProcess::Serve(const std::shared_ptr<PushStream>& push) {
  const std::weak_ptr<PushStream> weak = push;
  push->on_request = [this, weak](PushMessage message) {
    const auto push = weak.lock();
    const bool current = session_ != nullptr && !session_->closed && session_->receiving;
    const bool opens = message.step_id == 0;
    const bool accepted =
        current && (opens ? CheckSameWiring(message.wiring, session_->wiring).ok() &&
                                session_->from_before.expired()
                          : session_->from_before.lock() == push || world_.takes_foreign_rows);
    if (!accepted) {
      return push->connection->Close(Connection::kServer,
                                     absl::AbortedError("not a stream of this wiring"));
    }
    if (opens) {
      session_->from_before = push;
      return PushStream::SendResponse(push, {});
    }
    session_->hidden[message.step_id] = std::move(message.rows);
    ComputeNext(session_);
  };
}

std::vector<std::pair<uint64_t, size_t>> StageProcess::AwaitedRows() const {
  std::vector<std::pair<uint64_t, size_t>> awaited;
  if (session_ == nullptr || session_->closed || kind_ == Kind::kEmbedding) return awaited;
  for (const v1::StageExecute& plan : session_->plans) {
    size_t num_rows = static_cast<size_t>(plan.sampler().rows_size());
    for (const v1::Segment& segment : plan.shard().segments()) {
      num_rows += static_cast<size_t>(segment.num_positions());
    }
    if (!session_->hidden.contains(plan.step_id())) awaited.emplace_back(plan.step_id(), num_rows);
  }
  return awaited;
}

}  // namespace sluice::simulation
