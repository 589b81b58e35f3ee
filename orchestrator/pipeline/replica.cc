#include "orchestrator/pipeline/replica.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/common/log.h"
#include "services/common/status.h"

namespace sluice {
namespace {

constexpr absl::Duration kProbeTimeout = absl::Seconds(2);
constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(2);

std::vector<ReplicaProcess> ProcessesOf(const Topology& topology) {
  std::vector<ReplicaProcess> processes;
  processes.push_back({.service = "embedding", .address = topology.embedding});
  for (int stage = 0; stage < topology.num_stages(); ++stage) {
    for (int rank = 0; rank < topology.num_ranks(); ++rank) {
      processes.push_back({.service = "shard",
                           .address = topology.shards[stage][rank],
                           .stage = stage,
                           .rank = rank});
    }
  }
  processes.push_back({.service = "sampler", .address = topology.sampler});
  for (ReplicaProcess& process : processes) process.detail = "not reached yet";
  return processes;
}

// Asks Service's GetInfo at `address` and waits for the answer.
template <class Service, class Request, class Response>
absl::Status GetInfo(Dialer& dialer, const std::string& address, Response& response) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer.Dial(address);
  if (!channel.ok()) return channel.status();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kProbeTimeout));
  return FromGrpc(Service::NewStub(*channel)->GetInfo(&context, Request(), &response));
}

}  // namespace

Replica::Replica(ReplicaOptions options, Dialer* dialer, Handler handler)
    : options_(std::move(options)),
      dialer_(dialer),
      handler_(std::move(handler)),
      processes_(ProcessesOf(options_.topology)) {
  thread_ = std::thread([this] { Loop(); });
}

Replica::~Replica() { Stop(); }

void Replica::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Replica::Connect() {
  absl::MutexLock lock(&mutex_);
  connecting_ = true;
}

std::vector<ReplicaProcess> Replica::processes() const {
  absl::MutexLock lock(&mutex_);
  return processes_;
}

bool Replica::WaitForWork(absl::Duration pause) {
  absl::MutexLock lock(&mutex_);
  const auto stopping = +[](bool* stopping) { return *stopping; };
  mutex_.AwaitWithTimeout(absl::Condition(stopping, &stopping_), pause);
  mutex_.Await(absl::Condition(
      +[](Replica* replica)
           ABSL_NO_THREAD_SAFETY_ANALYSIS { return replica->stopping_ || replica->connecting_; },
      this));
  return !stopping_;
}

void Replica::Loop() {
  absl::Duration pause = absl::ZeroDuration();
  std::string last_failure;
  while (WaitForWork(pause)) {
    const absl::Status status = TryConnect();
    if (status.ok()) {
      pause = absl::ZeroDuration();
      last_failure.clear();
      continue;
    }
    if (status.message() != last_failure) {
      last_failure = std::string(status.message());
      Log(LogLevel::kWarning, "orchestrator", "replica-not-ready", {{"reason", last_failure}});
    }
    pause = pause == absl::ZeroDuration() ? kFirstPause : std::min(pause * 1.6, kLongestPause);
  }
}

absl::Status Replica::TryConnect() {
  KvGeometry geometry;
  absl::Status status = Probe(geometry);
  if (!status.ok()) return status;
  if (geometry_.num_blocks > 0) {
    if (geometry.block_size != geometry_.block_size || geometry.num_blocks < geometry_.num_blocks) {
      return absl::FailedPreconditionError(
          absl::StrCat("the shards came back with ", geometry.num_blocks, " blocks of ",
                       geometry.block_size, " positions; the replica was planned for ",
                       geometry_.num_blocks, " of ", geometry_.block_size));
    }
    geometry = geometry_;
  }
  // Larger than any epoch that a former orchestrator gave to these processes.
  epoch_ = std::max(epoch_ + 1, static_cast<uint64_t>(absl::ToUnixMicros(absl::Now())));
  const uint64_t epoch = epoch_;
  absl::StatusOr<std::unique_ptr<Wiring>> wiring = Wiring::Open(
      options_.topology, *dialer_,
      {.epoch = epoch,
       .num_kv_blocks = geometry.num_blocks,
       .model_fingerprint = options_.model_fingerprint,
       .rank_transport = options_.rank_transport},
      {.on_executed =
           [this, epoch](StepId step, std::vector<RowResult> rows) {
             handler_.on_executed(epoch, step, std::move(rows));
           },
       .on_lost = [this, epoch](const absl::Status& lost) { handler_.on_lost(epoch, lost); }});
  if (!wiring.ok()) return wiring.status();
  geometry_ = geometry;
  {
    absl::MutexLock lock(&mutex_);
    connecting_ = false;
    arithmetic_.clear();
    for (const ReplicaProcess& process : processes_) arithmetic_.push_back(process.arithmetic);
  }
  handler_.on_ready(epoch, *std::move(wiring), geometry);
  return absl::OkStatus();
}

absl::Status Replica::Probe(KvGeometry& geometry) {
  absl::Status first_failure;
  std::vector<ReplicaProcess> processes = this->processes();
  for (size_t i = 0; i < processes.size(); ++i) {
    ReplicaProcess& process = processes[i];
    absl::Status status;
    if (process.service == "embedding") {
      status =
          ProbeEnd<v1::EmbeddingService, v1::GetEmbeddingInfoRequest, v1::GetEmbeddingInfoResponse>(
              process);
    } else if (process.service == "sampler") {
      status = ProbeEnd<v1::SamplerService, v1::GetSamplerInfoRequest, v1::GetSamplerInfoResponse>(
          process);
    } else {
      status = ProbeShard(process, geometry);
    }
    if (status.ok()) status = CheckArithmetic(processes, i);
    process.ready = status.ok();
    process.detail = std::string(status.message());
    {
      absl::MutexLock lock(&mutex_);
      processes_[i] = process;
    }
    if (!status.ok() && first_failure.ok()) {
      first_failure = Annotate(status, absl::StrCat(process.service, " at ", process.address));
    }
  }
  return first_failure;
}

template <class Service, class Request, class Response>
absl::Status Replica::ProbeEnd(ReplicaProcess& process) const {
  Response info;
  absl::Status status = GetInfo<Service, Request>(*dialer_, process.address, info);
  if (!status.ok()) return status;
  process.weight_bytes = info.weight_bytes();
  if constexpr (std::is_same_v<Response, v1::GetSamplerInfoResponse>) {
    process.arithmetic = info.arithmetic();
  }
  return CheckFingerprint(process, info.model_fingerprint());
}

absl::Status Replica::ProbeShard(ReplicaProcess& process, KvGeometry& geometry) const {
  v1::GetShardInfoResponse info;
  absl::Status status =
      GetInfo<v1::ShardService, v1::GetShardInfoRequest>(*dialer_, process.address, info);
  if (!status.ok()) return status;
  process.weight_bytes = info.weight_bytes();
  process.kv_bytes = info.kv_bytes();
  process.arithmetic = info.arithmetic();
  status = CheckFingerprint(process, info.model_fingerprint());
  if (!status.ok()) return status;
  const Topology& topology = options_.topology;
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

absl::Status Replica::CheckArithmetic(absl::Span<const ReplicaProcess> processes,
                                      size_t index) const {
  const ReplicaProcess& process = processes[index];
  const auto differs = [&process](const std::string& from, const char* whose) {
    return absl::FailedPreconditionError(absl::StrCat("it computes with ", process.arithmetic, ", ",
                                                      whose, " with ", from,
                                                      "; the bits would differ"));
  };
  if (!arithmetic_.empty() && process.arithmetic != arithmetic_[index]) {
    return differs(arithmetic_[index], "before it came back");
  }
  if (process.service != "shard") return absl::OkStatus();
  for (const ReplicaProcess& other : processes.first(index)) {
    if (other.service == "shard" && other.ready && other.arithmetic != process.arithmetic) {
      return differs(other.arithmetic, "other shards");
    }
  }
  return absl::OkStatus();
}

absl::Status Replica::CheckFingerprint(const ReplicaProcess& process,
                                       const std::string& fingerprint) const {
  if (fingerprint == options_.model_fingerprint) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("it serves another model: fingerprint ",
                                                    fingerprint, ", expected ",
                                                    options_.model_fingerprint));
}

}  // namespace sluice
