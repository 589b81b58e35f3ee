// The engine's and the requests' metrics, as they are scraped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "orchestrator/metrics/engine_metrics.h"
#include "orchestrator/metrics/request_metrics.h"
#include "orchestrator/metrics/step_metrics.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const prometheus::Collectable& source) {
  return prometheus::TextSerializer().Serialize(source.Collect());
}

class RequestMetricsTest : public ::testing::Test {
 protected:
  // Notes that all was passed on.
  struct Client final : RequestSink {
    void OnChunk(ChunkEvent) override { ++chunks; }
    void OnFinished(RequestEnd) override { finished = true; }
    void OnFailed(absl::Status) override { failed = true; }
    int chunks = 0;
    bool finished = false;
    bool failed = false;
  };

  void Advance(double seconds) { now_ += absl::Seconds(seconds); }
  static ChunkEvent Tokens(int count) {
    return {.tokens = TokenEvents(static_cast<size_t>(count))};
  }

  absl::Time now_ = absl::UnixEpoch();
  prometheus::Registry registry_;
  const std::shared_ptr<RequestMetrics> metrics_ = RequestMetrics::Make(
      registry_, [this] { return now_; }, "tiny");
  const std::shared_ptr<Client> client_ = std::make_shared<Client>();
};

TEST_F(RequestMetricsTest, MeasuresFirstTokenTokensBetweenAndTheWhole) {
  const auto sink = metrics_->Measure(client_, "gold", "chat");
  EXPECT_THAT(Text(registry_), HasSubstr("sluice_requests_in_progress 1\n"));
  Advance(0.5);
  sink->OnChunk(Tokens(1));
  for (int i = 0; i < 4; ++i) {
    Advance(0.25);
    sink->OnChunk(Tokens(1));
  }
  sink->OnChunk({.text = "text without tokens"});
  Advance(1);
  sink->OnFinished({.num_prompt_tokens = 7});
  const std::string text = Text(registry_);
  for (const char* line :
       {"sluice_requests_total{outcome=\"ok\",tenant_class=\"gold\"} 1\n",
        "sluice_requests_in_progress 0\n", "sluice_time_to_first_token_seconds_count 1\n",
        "sluice_time_to_first_token_seconds_sum 0.5\n",
        "sluice_time_between_tokens_seconds_count 4\n",
        "sluice_time_between_tokens_seconds_sum 1\n", "sluice_request_duration_seconds_sum 2.5\n",
        "sluice_request_prompt_tokens_sum 7\n", "sluice_request_generated_tokens_sum 5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_EQ(client_->chunks, 6);
  EXPECT_TRUE(client_->finished);
}

TEST_F(RequestMetricsTest, HasTheMetricsOfOpenTelemetrysConventions) {
  const auto sink = metrics_->Measure(client_, "gold", "chat");
  Advance(0.5);
  sink->OnChunk(Tokens(1));
  Advance(1);
  sink->OnChunk(Tokens(4));
  sink->OnFinished({});
  const auto failed = metrics_->Measure(client_, "gold", "text_completion");
  failed->OnChunk(Tokens(1));
  Advance(2);
  failed->OnFailed(absl::InternalError("lost"));
  const std::string text = Text(registry_);
  const std::string chat =
      "gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"sluice\",gen_ai_request_model="
      "\"tiny\"";
  for (const std::string& line :
       {"gen_ai_server_time_to_first_token_seconds_sum{" + chat + "} 0.5\n",
        "gen_ai_server_time_per_output_token_seconds_sum{" + chat + "} 0.25\n",
        "gen_ai_server_request_duration_seconds_sum{" + chat + "} 1.5\n",
        "gen_ai_server_request_duration_seconds_bucket{" + chat + ",le=\"81.92\"} 1\n",
        std::string("gen_ai_server_request_duration_seconds_sum{error_type=\"internal\",gen_ai_"
                    "operation_name=\"text_completion\",gen_ai_provider_name=\"sluice\",gen_ai_"
                    "request_model=\"tiny\"} 2\n")}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("first_token_seconds_sum{gen_ai_operation_name=\"text_comp")));
}

TEST_F(RequestMetricsTest, CountsEndsByStatus) {
  metrics_->Measure(client_, "gold", "chat")->OnFailed(absl::ResourceExhaustedError("full"));
  metrics_->Measure(client_, "gold", "chat").reset();
  metrics_->CountRefused(absl::InvalidArgumentError("max_tokens is 0"), "gold");
  const std::string text = Text(registry_);
  for (const char* outcome : {"resource_exhausted", "cancelled", "invalid_argument"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("sluice_requests_total{outcome=\"", outcome,
                                             "\",tenant_class=\"gold\"} 1\n")));
  }
  EXPECT_THAT(text, HasSubstr("sluice_requests_in_progress 0\n"));
  EXPECT_TRUE(client_->failed);
}

TEST(StepMetrics, MeasuresStepsAndWaiting) {
  prometheus::Registry registry;
  StepMetrics metrics(registry);
  metrics.OnStep(absl::Milliseconds(250), 40, 3);
  RequestLedger ended;
  ended.times.arrived = SteadyTime::FromStart(absl::Seconds(10));
  ended.times.started = SteadyTime::FromStart(absl::Seconds(12));
  ended.times.ended = SteadyTime::FromStart(absl::Seconds(20));
  metrics.OnRequestEnded(ended);
  ended.times.started.reset();
  metrics.OnRequestEnded(ended);
  const std::string text = Text(registry);
  for (const char* line :
       {"sluice_step_duration_seconds_sum 0.25\n", "sluice_step_positions_sum 40\n",
        "sluice_step_sequences_sum 3\n", "sluice_queue_time_seconds_count 2\n",
        "sluice_queue_time_seconds_sum 12\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(EngineMetrics, ShowsADraftModelWhereThereIsOne) {
  EngineStatus status;
  const EngineMetrics metrics([&] { return status; }, false);
  EXPECT_THAT(Text(metrics), Not(HasSubstr("sluice_draft_model")));
  RunnerStatus& model = status.runners.emplace_back();
  model.role = RunnerRole::kDraft;
  model.ready = true;
  model.num_steps = 12;
  status.num_proposed_tokens = 30;
  model.num_recoveries = 2;
  model.scheduler.kv_cache.used_blocks = 5;
  ReplicaProcess shard;
  shard.role = Role::kShard;
  shard.kv_bytes = 512;
  shard.busy = absl::Seconds(3);
  model.processes = std::make_shared<std::vector<ReplicaProcess>>(1, shard);
  EXPECT_THAT(Text(metrics), Not(HasSubstr("sluice_shard_busy_seconds_total{")))
      << "those are of the served model";
  for (const char* line :
       {"sluice_kv_bytes{service=\"draft-shard\",stage=\"0\",rank=\"0\"} 512\n",
        "sluice_draft_model_ready 1\n", "sluice_draft_model_steps_total 12\n",
        "sluice_draft_model_tokens_total 30\n", "sluice_draft_model_recoveries_total 2\n",
        "sluice_draft_model_kv_blocks{state=\"used\"} 5\n"}) {
    EXPECT_THAT(Text(metrics), HasSubstr(line));
  }
}

TEST(EngineMetrics, ShowsWhatTheEngineSaysAtTheMoment) {
  EngineStatus status;
  RunnerStatus& target = status.runners.front();
  target.scheduler.running_sequences = 3;
  target.scheduler.waiting_sequences = 1;
  status.num_unadmitted_requests = 1;
  target.num_steps = 40;
  target.num_hangs = 2;
  status.num_integrity_faults = 1;
  target.scheduler.preemptions = 7;
  target.scheduler.paused_sequences = 5;
  target.scheduler.recomputed.after_pause = 70;
  target.scheduler.kv_cache.hit_positions = 90;
  target.scheduler.kv_cache.queried_positions = 120;
  target.scheduler.kv_cache.cached_blocks = 4;
  target.scheduler.kv_cache.total_blocks = 8;
  target.scheduler.kv_cache.used_blocks = 2;
  target.scheduler.kv_cache.block_size = 16;
  ReplicaProcess shard;
  shard.role = Role::kShard;
  shard.stage = 1;
  shard.kv_bytes = 4096;
  shard.busy = absl::Milliseconds(1500);
  shard.gap = absl::Milliseconds(250);
  shard.gap_computed = absl::Milliseconds(125);
  shard.ready = true;
  target.processes = std::make_shared<std::vector<ReplicaProcess>>(1, shard);
  const EngineMetrics plain([&] { return status; }, false);
  for (const char* line :
       {"sluice_sequences{state=\"running\"} 3\n", "sluice_sequences{state=\"waiting\"} 2\n",
        "sluice_steps_total 40\n", "sluice_kv_blocks{state=\"used\"} 2\n",
        "sluice_kv_blocks{state=\"cached\"} 4\n", "sluice_hangs_total 2\n",
        "sluice_sequences{state=\"paused\"} 5\n", "sluice_integrity_faults_total 1\n",
        "sluice_preemptions_total 7\n", "sluice_kv_hit_positions_total 90\n",
        "sluice_recomputed_positions_total{cause=\"pause\"} 70\n", "sluice_kv_usage_ratio 0.25\n",
        "sluice_process_ready{service=\"shard\",stage=\"1\",rank=\"0\"} 1\n",
        "sluice_kv_bytes{service=\"shard\",stage=\"1\",rank=\"0\"} 4096\n",
        "sluice_shard_busy_seconds_total{stage=\"1\",rank=\"0\"} 1.5\n",
        "sluice_shard_gap_seconds_total{stage=\"1\",rank=\"0\"} 0.25\n",
        "sluice_shard_gap_computed_seconds_total{stage=\"1\",rank=\"0\"} 0.125\n"}) {
    EXPECT_THAT(Text(plain), HasSubstr(line));
  }
  EXPECT_THAT(Text(plain), Not(HasSubstr("vllm:")));
  target.num_steps = 41;
  EXPECT_THAT(Text(plain), HasSubstr("sluice_steps_total 41\n"));
  const EngineMetrics both([&] { return status; }, true);
  for (const char* line :
       {"vllm:num_requests_waiting 2\n", "vllm:num_requests_running 3\n",
        "vllm:kv_cache_usage_perc 0.25\n", "vllm:prefix_cache_queries_total 120\n",
        "vllm:prefix_cache_hits_total 90\n",
        "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"8\"} 1\n"}) {
    EXPECT_THAT(Text(both), HasSubstr(line));
  }
}

}  // namespace
}  // namespace sluice
