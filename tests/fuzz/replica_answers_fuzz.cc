// What the stages of a replica answer to an orchestrator, made wrong by arbitrary bytes: each
// spoils one answer; once they are used up all answers are right. An answer that contradicts the
// plan must end the row or the replica's epoch: no crash, no token outside the vocabulary, no
// log-probability that is none, and no text but the right one. Every request must end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "orchestrator/engine/engine_core.h"
#include "orchestrator/pipeline/connected_replica.h"
#include "orchestrator/pipeline/stage_network.h"
#include "services/process/log.h"

namespace sluice {
namespace {

constexpr int32_t kVocabulary = 50;
constexpr int32_t kBlockSize = 4;
constexpr int32_t kNumBlocks = 32;
// Of virtual time a millisecond each, where nothing says when more is due: a step that hangs takes
// thousands.
constexpr int kMostRounds = 200'000;

// The bytes, one for each answer.
class Spoiler {
 public:
  Spoiler(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  // 0 once they are used up.
  uint8_t Next() { return at_ < size_ ? data_[at_++] : 0; }
  // The same as a text of up to 64 bytes.
  std::string NextText() {
    std::string text;
    for (int left = Next() % 64; left > 0; --left) text += static_cast<char>(Next());
    return text;
  }

 private:
  const uint8_t* const data_;
  const size_t size_;
  size_t at_ = 0;
};

// The token that stands at a position of a sequence's text.
int32_t TokenAt(int32_t sequence_index, int32_t position) {
  return (position * 7 + sequence_index * 13 + 5) % kVocabulary;
}

void SpoilInfo(uint8_t how, v1::GetStageInfoResponse& info) {
  const int32_t values[] = {0, -1, std::numeric_limits<int32_t>::max(),
                            std::numeric_limits<int32_t>::min(), 3};
  const int32_t value = values[how / 8 % 5];
  switch (how % 8) {
    case 1:
      return info.mutable_shard()->set_block_size(value);
    case 2:
      if (how >= 128) return info.mutable_shard()->set_num_state_slots(value);
      return info.mutable_shard()->set_num_kv_blocks(value);
    case 3:
      return info.mutable_shard()->set_rank(value);
    case 4:
      return info.mutable_shard()->set_num_stages(value);
    case 5:
      return info.mutable_shard()->set_max_step_tokens(value);
    case 6:
      return info.set_tenure(static_cast<uint64_t>(value));
    case 7:
      return info.set_arithmetic(std::string(how, 'a'));
    default:
      return;
  }
}

// Makes a row contradict what was asked, or fail.
void SpoilRow(uint8_t how, v1::SampledRow& row) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (how % 16) {
    case 0:
      return row.set_token_id(-1);
    case 1:
      return row.set_token_id(kVocabulary);
    case 2:
      return row.set_token_id(std::numeric_limits<int32_t>::max());
    case 3:
      return row.set_logprob(kNan);
    case 4:
      return row.set_logprob(kInfinity);
    case 5:
      return row.add_top_token_ids(1);
    case 6:
      return row.add_top_logprobs(-1);
    case 7:
      if (row.top_token_ids_size() > 0) row.set_top_token_ids(0, -5);
      return;
    case 8:
      if (row.top_logprobs_size() > 0) row.set_top_logprobs(0, kNan);
      return;
    case 9:
      return row.set_error_code(how);
    case 10:
      return row.set_error_message("no reason");
    case 11:
      return row.add_forced_token_ids(how);
    case 12:
      return row.add_likely_token_ids(-1);
    case 13:
      return row.add_top_perturbed(kNan);
    case 14:
      row.set_deferred(true);
      return row.set_work_us(~uint64_t{0});
    default:
      row.set_error_code(std::numeric_limits<int32_t>::min());
      return;
  }
}

// Delivers what was sent, one message at a time, never from within a call.
class Wire {
 public:
  void Post(std::function<void()> event) { events_.push_back(std::move(event)); }
  bool DeliverOne() {
    if (events_.empty()) return false;
    const std::function<void()> event = std::move(events_.front());
    events_.pop_front();
    event();
    return true;
  }

 private:
  std::deque<std::function<void()>> events_;
};

// A stage's end of a stream. Answers Open, and of the sampler every plan.
class FakeStream final : public StageNetwork::Stream {
 public:
  using Response = v1::StageRunResponse;

  FakeStream(Wire* wire, Spoiler* spoiler, Handler handler)
      : wire_(*wire), spoiler_(*spoiler), state_(std::make_shared<Handler>(std::move(handler))) {}

  void Send(v1::StageRunRequest&& request) override {
    if (request.has_open()) return Open(request.open());
    if (request.execute().has_sampler()) Execute(request.execute());
    if (request.execute().has_shard()) TellTimes();
  }

 private:
  void Answer(Response response) {
    wire_.Post([state = std::weak_ptr<Handler>(state_), response = std::move(response)]() mutable {
      if (const auto handler = state.lock()) handler->on_response(std::move(response));
    });
  }
  void End() {
    wire_.Post([state = std::weak_ptr<Handler>(state_)] {
      if (const auto handler = state.lock()) handler->on_done(absl::DataLossError("spoiled"));
    });
  }

  void Open(const v1::StageOpen& open) {
    Response response;
    response.mutable_opened()->set_epoch(open.epoch());
    response.mutable_opened()->set_wiring_nonce(open.wiring_nonce());
    response.mutable_opened()->set_model_fingerprint(open.model_fingerprint());
    const uint8_t how = spoiler_.Next();
    if (how % 16 == 1) return End();
    if (how % 16 == 2) return;  // never opens
    if (how % 16 == 3) response.Clear();
    if (how % 16 == 4) response.mutable_opened()->set_epoch(how * 1'000'003ull);
    if (how % 16 == 5) Answer(response);
    if (how % 16 == 7) response.mutable_opened()->set_wiring_nonce(std::string(16, 'x'));
    if (how % 16 == 8) response.mutable_opened()->set_model_fingerprint("another");
    Answer(std::move(response));
    if (how % 16 == 6) End();
  }

  void TellTimes() {
    const uint8_t how = spoiler_.Next();
    if (how % 8 != 1) return;
    Response response;
    response.mutable_times()->set_busy_ns(~uint64_t{0} / (how + 1));
    response.mutable_times()->set_gap_ns(~uint64_t{0});
    Answer(std::move(response));
  }

  void Execute(const v1::StageExecute& plan) {
    Response response;
    response.mutable_executed()->set_epoch(plan.epoch());
    response.mutable_executed()->set_step_id(plan.step_id());
    v1::SamplerExecuted& executed = *response.mutable_executed()->mutable_sampler();
    for (const v1::SamplerRow& row : plan.sampler().rows()) AddRow(row, executed);
    Spoil(spoiler_.Next(), std::move(response));
  }

  static void AddRow(const v1::SamplerRow& row, v1::SamplerExecuted& executed) {
    v1::SampledRow& sampled = *executed.add_rows();
    sampled.set_token_id(row.has_score_token_id() ? row.score_token_id()
                                                  : TokenAt(row.sequence_index(), row.position()));
    sampled.set_logprob(-1);
    for (int i = 0; i < row.num_logprobs(); ++i) {
      sampled.add_top_token_ids((row.position() + i) % kVocabulary);
      sampled.add_top_logprobs(-1 - static_cast<float>(i));
      if (row.perturbed()) sampled.add_top_perturbed(-i);
    }
  }

  void Spoil(uint8_t how, Response response) {
    v1::StageExecuted& step = *response.mutable_executed();
    v1::SamplerExecuted& executed = *step.mutable_sampler();
    const uint8_t which = spoiler_.Next();
    switch (how % 16) {
      case 1:
        step.set_step_id(step.step_id() + which + 1);
        break;
      case 2:
        step.set_epoch(step.epoch() + which + 1);
        break;
      case 3:
        if (executed.rows_size() > 0) executed.mutable_rows()->RemoveLast();
        break;
      case 4:
        executed.add_rows();
        break;
      case 5:
        Answer(response);
        break;
      case 6:
        return;  // never answers
      case 7:
        return End();
      case 8:
        response.mutable_opened();
        break;
      case 9:
        response.Clear();
        break;
      case 10:
        step.set_step_id(0);
        break;
      default:
        if (how % 16 > 10 && executed.rows_size() > 0) {
          SpoilRow(how / 16, *executed.mutable_rows(which % executed.rows_size()));
        }
        break;
    }
    Answer(std::move(response));
  }

  Wire& wire_;
  Spoiler& spoiler_;
  const std::shared_ptr<Handler> state_;
};

class FakeNetwork final : public StageNetwork {
 public:
  FakeNetwork(Wire* wire, Spoiler* spoiler) : wire_(*wire), spoiler_(*spoiler) {}

  void Ask(Role role, const std::string&, absl::Duration, InfoCallback callback) override {
    v1::GetStageInfoResponse info;
    if (role == Role::kEmbedding) info.mutable_embedding();
    if (role == Role::kSampler) info.mutable_sampler()->set_vocabulary_size(kVocabulary);
    if (role == Role::kShard) {
      v1::ShardInfo& shard = *info.mutable_shard();
      shard.set_num_stages(1);
      shard.set_num_ranks(1);
      shard.set_block_size(kBlockSize);
      shard.set_num_kv_blocks(kNumBlocks);
      shard.set_max_step_tokens(64);
      SpoilInfo(spoiler_.Next(), info);
    }
    Answer(std::move(info), std::move(callback));
  }
  void Refuse(const std::string&, const std::string&) override {}

  absl::StatusOr<std::unique_ptr<Stream>> Run(Role, const std::string&,
                                              Stream::Handler handler) override {
    return std::make_unique<FakeStream>(&wire_, &spoiler_, std::move(handler));
  }

 private:
  void Answer(v1::GetStageInfoResponse info, InfoCallback callback) {
    const uint8_t how = spoiler_.Next();
    if (how % 16 == 1) return;  // never answers
    absl::StatusOr<v1::GetStageInfoResponse> answer = std::move(info);
    if (how % 16 == 2) answer = absl::PermissionDeniedError("spoiled");
    if (how % 16 == 3) answer->set_model_fingerprint("another");
    if (how % 16 == 4) answer->set_epoch(how);
    if (how % 16 == 5) answer->set_weights_digest(spoiler_.NextText());
    wire_.Post([answer = std::move(answer), callback = std::move(callback)]() mutable {
      callback(std::move(answer));
    });
  }

  Wire& wire_;
  Spoiler& spoiler_;
};

// Holds what a request brings against what is right.
class CheckingSink final : public RequestSink {
 public:
  // `num_prompt` tokens of prompt; texts of sequences that are searched for by beams may be any.
  CheckingSink(int32_t num_prompt, bool knows_text)
      : num_prompt_(num_prompt), knows_text_(knows_text) {}

  void OnChunk(ChunkEvent chunk) override {
    SLUICE_CHECK(!over_);
    if (static_cast<size_t>(chunk.sequence_index) >= counts_.size()) {
      counts_.resize(chunk.sequence_index + 1);
    }
    for (const TokenEvent& token : chunk.tokens) {
      Check(token);
      const int32_t position = num_prompt_ + counts_[chunk.sequence_index]++;
      SLUICE_CHECK(!knows_text_ || token.token == TokenAt(chunk.sequence_index, position));
    }
    for (const TokenEvent& token : chunk.prompt_tokens) Check(token);
  }
  void OnFinished(RequestEnd) override { End(); }
  void OnFailed(absl::Status status) override {
    SLUICE_CHECK(!status.ok() && !status.message().empty());
    End();
  }
  bool over() const { return over_; }

 private:
  static void Check(const TokenEvent& token) {
    SLUICE_CHECK(token.token >= 0 && token.token < kVocabulary);
    SLUICE_CHECK(token.logprob <= 0.01f);  // and a number
    for (const RankedToken& ranked : token.top) {
      SLUICE_CHECK(ranked.token >= 0 && ranked.token < kVocabulary && ranked.logprob <= 0.01f);
    }
  }
  void End() {
    SLUICE_CHECK(!over_);
    over_ = true;
  }

  const int32_t num_prompt_;
  const bool knows_text_;
  std::vector<int32_t> counts_;
  bool over_ = false;
};

EngineRequest Request(const std::string& name, int32_t num_prompt) {
  EngineRequest request;
  request.name = name;
  for (int32_t i = 0; i < num_prompt; ++i) request.prompt.push_back(i % kVocabulary);
  request.max_new_tokens = 6;
  request.wants_text = false;
  return request;
}

std::vector<std::shared_ptr<CheckingSink>> SubmitAll(EngineCore& core) {
  EngineRequest two = Request("two", 5);
  two.num_sequences = 2;
  two.num_logprobs = 2;
  EngineRequest scored = Request("scored", 9);
  scored.prompt_logprobs = 1;
  EngineRequest beams = Request("beams", 3);
  beams.beams.emplace().search.width = 2;
  beams.beams->num_candidates = 4;
  std::vector<std::shared_ptr<CheckingSink>> sinks;
  RequestId id = 0;
  for (EngineRequest* request : {&two, &scored, &beams}) {
    sinks.push_back(std::make_shared<CheckingSink>(static_cast<int32_t>(request->prompt.size()),
                                                   !request->beams.has_value()));
    core.Submit(++id, std::move(*request), sinks.back());
  }
  return sinks;
}

void Run(Spoiler& spoiler) {
  Wire wire;
  FakeNetwork network(&wire, &spoiler);
  Topology topology = {.embedding = "embedding", .shards = {{"shard"}}, .sampler = "sampler"};
  ConnectedReplica replica(
      {.topology = topology, .max_step_tokens = 64, .vocabulary_size = kVocabulary}, &network);
  EngineOptions options;
  options.scheduler.max_positions = 64;
  options.scheduler.max_tokens_per_step = 64;
  options.speculation.mode = DraftMode::kNone;
  EngineCore core(options, &replica, nullptr);
  const auto sinks = SubmitAll(core);
  SteadyTime now = SteadyTime::FromStart(absl::Hours(1));
  for (int round = 0; round < kMostRounds; ++round) {
    const SteadyTime next = core.Advance(now);
    bool over = true;
    for (const auto& sink : sinks) over = over && sink->over();
    if (over) return;
    // What is due comes before time passes, but time passes with everything.
    now = wire.DeliverOne() ? now + absl::Milliseconds(1)
                            : std::max(next, now + absl::Milliseconds(1));
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    if (!sinks[i]->over()) std::fprintf(stderr, "request %zu has no end\n", i + 1);
  }
  SLUICE_CHECK(false);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {
    sluice::SetMinimumLogLevel(sluice::LogLevel::kError);
    return true;
  }();
  (void)quiet;
  sluice::Spoiler spoiler(data, std::min<size_t>(size, 256));
  sluice::Run(spoiler);
  return 0;
}
