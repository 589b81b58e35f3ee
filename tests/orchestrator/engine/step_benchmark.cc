// What a step costs the orchestrator: taking its results, telling requests of their tokens,
// planning the next one and making its messages, down to their bytes; over the sequences that run,
// those that wait, and the blocks that each has. Stages answer at once. Every run is checked: the
// steps choose a token for every sequence that runs. Times are of the thread's own processor time,
// so that other load on the machine shows less.
//
//   sluice-step-bench [--svg=FILE]
//   sluice-step-bench --running=256 [--waiting=4096] [--prompt=200] [--answer=128] [--drafts=0]
//                     [--steps=4000] [--runs=3] [--subscribers=-1]
//
// The same steps are taken `--runs` times. "p50" and "p99" are of all times; "own p99" is of the
// shortest time of each step: what it costs by itself, without the interrupts and the like that
// befell the thread.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/check.h"
#include "orchestrator/api/kv_event_stream.h"
#include "orchestrator/engine/engine_core.h"
#include "orchestrator/pipeline/sampler_plans.h"
#include "orchestrator/pipeline/step_messages.h"
#include "services/process/log.h"

ABSL_FLAG(std::string, svg, "", "also draws the first table into this file");
ABSL_FLAG(int, running, 0, "measures a load of so many running sequences alone");
ABSL_FLAG(int, waiting, 4096, "with --running: sequences that wait");
ABSL_FLAG(int, prompt, 200, "with --running: tokens of each prompt");
ABSL_FLAG(int, answer, 128, "with --running: tokens of each answer, on average");
ABSL_FLAG(int, drafts, 0, "with --running: the longest draft; 0: nothing is drafted");
ABSL_FLAG(int, steps, 4000, "with --running: steps that are measured");
ABSL_FLAG(int, subscribers, -1,
          "publishes what the cache holds to so many, in messages; -1: publishes nothing");
ABSL_FLAG(int, runs, 3, "takes the same steps so often");

namespace sluice {
namespace {

// What a step takes the stages.
constexpr absl::Duration kStepTime = absl::Milliseconds(20);

struct Load {
  int running = 256;
  int waiting = 4096;
  int prompt = 200;  // tokens
  int answer = 128;  // tokens, on average
  int drafts = 0;    // the longest
};

struct Cost {
  double p50_us = 0;
  double p99_us = 0;
  double own_p99_us = 0;  // of the shortest time of each step
  // Of turns that neither commit nor plan any of a prompt; 0 where there were none.
  double decodes_p50_us = 0;
};

struct StepTime {
  double us = 0;
  bool decodes_alone = false;
};

// The value below which the part `quantile` of them lies. Sorts them.
double Quantile(std::vector<double>& values, double quantile) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(quantile * static_cast<double>(values.size() - 1))];
}

double ThreadMicroseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// Takes steps as the real one does, up to the bytes that go to the stages, and executes the oldest
// when it is told to.
class InstantReplica final : public Replica {
 public:
  explicit InstantReplica(const KvGeometry& geometry) {
    topology_ = {.embedding = "e", .shards = {{"s"}}, .sampler = "s"};
    events_.emplace_back(ReplicaReady{.epoch = 1, .geometry = geometry});
  }

  void Advance(SteadyTime) override {}
  SteadyTime NextWake() const override { return SteadyTime::InfiniteFuture(); }
  std::vector<ReplicaEvent> TakeEvents() override { return std::exchange(events_, {}); }
  void MarkFailed(const absl::Status& status) override { SLUICE_CHECK(status.ok()); }
  const Topology& topology() const override { return topology_; }
  std::shared_ptr<const std::vector<ReplicaProcess>> processes() const override {
    return processes_;
  }

  void Execute(const Step& step, absl::Span<const RowRequest> rows) override {
    SetEmbeddingMessage(1, step, embedding_);
    SetShardMessage(1, step, shard_);
    sampler_plans_.SetMessage(1, step, rows, sampler_);
    for (const google::protobuf::MessageLite* message :
         std::initializer_list<const google::protobuf::MessageLite*>{&embedding_, &shard_,
                                                                     &sampler_}) {
      bytes_.resize(message->ByteSizeLong());  // as they go into a lane
      message->SerializeWithCachedSizesToArray(bytes_.data());
    }
    under_way_.push_back({.id = step.id, .num_rows = rows.size()});
    if (step.num_tokens() > static_cast<int>(step.segments.size())) last_prompt_ = step.id;
  }

  // The step answered last, and those sent since, have one position a sequence.
  bool decodes_alone() const { return last_prompt_ < answered_; }

  // How many rows the step had.
  size_t AnswerOldest() {
    SLUICE_CHECK(!under_way_.empty());
    const Sent sent = under_way_.front();
    under_way_.pop_front();
    answered_ = sent.id;
    events_.emplace_back(
        StepExecuted{.step = sent.id, .rows = std::vector<RowResult>(sent.num_rows, {.token = 1})});
    return sent.num_rows;
  }

 private:
  struct Sent {
    StepId id = 0;
    size_t num_rows = 0;
  };

  Topology topology_;
  std::shared_ptr<const std::vector<ReplicaProcess>> processes_ =
      std::make_shared<std::vector<ReplicaProcess>>();
  SamplerPlans sampler_plans_;
  v1::StageRunRequest embedding_, shard_, sampler_;
  std::deque<Sent> under_way_;
  std::vector<ReplicaEvent> events_;
  std::vector<uint8_t> bytes_;  // of the last message
  StepId answered_ = 0;
  StepId last_prompt_ = 0;  // the latest that computes some of a prompt
};

class CountingSink final : public RequestSink {
 public:
  explicit CountingSink(int* num_ended) : num_ended_(num_ended) {}
  void OnChunk(ChunkEvent) override {}
  void OnFinished(RequestEnd) override { ++*num_ended_; }
  void OnFailed(absl::Status status) override { SLUICE_CHECK(status.ok()); }

 private:
  int* const num_ended_;
};

// Makes the bytes of what it is sent, as a KvEvents call does.
class MessageSubscriber final : public KvSubscriber {
 public:
  bool OnBatch(const std::shared_ptr<const KvEventBatch>& batch) override {
    v1::KvEventsRequest request;
    request.set_blocks(true);
    request.set_prompts(true);
    num_bytes += ToProto(*batch, request).SerializeAsString().size();
    return true;
  }
  size_t num_bytes = 0;
};

EngineOptions OptionsFor(const Load& load, KvEventPublisher* publisher) {
  EngineOptions options;
  if (absl::GetFlag(FLAGS_subscribers) >= 0) options.kv_events = publisher;
  options.scheduler = {.max_tokens_per_step = 1 << 25,
                       .max_sequences_per_step = load.running,
                       .max_queued_sequences = load.waiting + load.running,
                       .max_queued_tokens = 1 << 30,
                       .max_positions = 1 << 20};
  return options;
}

// Keeps `load` on an engine: whoever ends makes room for one that waits, and another one comes.
class Bench {
 public:
  explicit Bench(const Load& load)
      : load_(load),
        replica_({.block_size = 16,
                  .num_blocks = load.running * (load.prompt / 16 + 3 * load.answer / 32 + 8)}),
        core_(OptionsFor(load, &publisher_), &replica_, nullptr) {
    core_.Advance(now_);
    for (int i = 0; i < absl::GetFlag(FLAGS_subscribers); ++i) {
      publisher_.Subscribe(std::make_shared<MessageSubscriber>());
    }
    for (int i = 0; i < load.running + load.waiting; ++i) Submit();
    core_.Advance(now_);
    for (int i = 0; i < 300; ++i) Step();  // everybody is somewhere else in his answer
  }

  std::vector<StepTime> Measure(int num_steps) {
    std::vector<StepTime> times;
    times.reserve(num_steps);
    for (int i = 0; i < num_steps; ++i) {
      const double us = Step();
      times.push_back({.us = us, .decodes_alone = replica_.decodes_alone()});
    }
    return times;
  }

 private:
  void Submit() {
    const RequestId id = ++last_id_;
    EngineRequest request;
    request.tenant = absl::StrCat("tenant ", id % 8);
    request.prompt.resize(load_.prompt);
    for (int i = 0; i < load_.prompt; ++i) {
      request.prompt[i] = static_cast<TokenId>((id * 7919 + i) % 50'000);
    }
    request.max_new_tokens = (load_.answer + 1) / 2 + static_cast<int>(id * 37 % load_.answer);
    request.max_drafts = load_.drafts;
    PromptKeyBuilder keys("ids", /*adapter=*/"");
    keys.Add(request.prompt);
    request.prompt_keys = std::make_shared<const PromptKeys>(keys.Finish());
    core_.Submit(id, std::move(request), std::make_shared<CountingSink>(&num_ended_));
  }

  // The microseconds that one turn of the loop took: results in, the next step out.
  double Step() {
    const size_t num_rows = replica_.AnswerOldest();
    SLUICE_CHECK(num_rows + 64 > static_cast<size_t>(load_.running));
    now_ = now_ + kStepTime;
    const double begin = ThreadMicroseconds();
    core_.Advance(now_);
    const double time = ThreadMicroseconds() - begin;
    for (; num_ended_ > 0; --num_ended_) Submit();
    return time;
  }

  const Load load_;
  SteadyTime now_ = SteadyTime::FromStart(absl::Seconds(1));
  int num_ended_ = 0;
  InstantReplica replica_;
  KvEventPublisher publisher_;
  EngineCore core_;
  RequestId last_id_ = 0;
};

Cost CostOf(const Load& load) {
  std::vector<double> times, decodes, shortest;
  for (int run = 0; run < absl::GetFlag(FLAGS_runs); ++run) {
    const std::vector<StepTime> steps = Bench(load).Measure(absl::GetFlag(FLAGS_steps));
    shortest.resize(steps.size(), std::numeric_limits<double>::infinity());
    for (size_t i = 0; i < steps.size(); ++i) {
      times.push_back(steps[i].us);
      shortest[i] = std::min(shortest[i], steps[i].us);
      if (steps[i].decodes_alone) decodes.push_back(steps[i].us);
    }
  }
  return {.p50_us = Quantile(times, 0.5),
          .p99_us = Quantile(times, 0.99),
          .own_p99_us = Quantile(shortest, 0.99),
          .decodes_p50_us = Quantile(decodes, 0.5)};
}

void PrintRow(const Load& load, const Cost& cost) {
  std::printf("| %7d | %7d | %6d | %8.1f | %8.1f | %12.1f | %16.2f | %16.1f |\n", load.running,
              load.waiting, load.prompt, cost.p50_us, cost.p99_us, cost.own_p99_us,
              cost.p50_us / load.running, cost.decodes_p50_us);
  std::fflush(stdout);
}

constexpr char kHead[] =
    "| running | waiting | prompt | p50 (us) | p99 (us) | own p99 (us) | p50 / token (us) | "
    "decodes p50 (us) |\n"
    "|--------:|--------:|-------:|---------:|---------:|-------------:|-----------------:|--------"
    "---------:|\n";

// Microseconds over running sequences, both by powers of two.
std::string Picture(const std::vector<std::pair<int, Cost>>& costs) {
  const auto x = [](int running) {
    int power = 0;
    while ((1 << power) < running) ++power;
    return 70 + 60 * power;
  };
  const auto y = [](double us) { return 360 - 24 * std::log2(std::max(us, 0.5) / 0.5); };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 420\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"13\">\n"
      "<text x=\"70\" y=\"22\" font-size=\"15\">One step: commit, publish, plan, messages; "
      "4,096 waiting</text>\n";
  for (int power = 0; power <= 10; ++power) {
    absl::StrAppendFormat(
        &svg, "<text x=\"%d\" y=\"382\" text-anchor=\"middle\" fill=\"#555\">%d</text>\n",
        70 + 60 * power, 1 << power);
  }
  for (const double us :
       {0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0}) {
    absl::StrAppendFormat(
        &svg,
        "<line x1=\"70\" x2=\"670\" y1=\"%.0f\" y2=\"%.0f\" stroke=\"#ddd\"/>"
        "<text x=\"62\" y=\"%.0f\" text-anchor=\"end\" fill=\"#555\">%g us</text>\n",
        y(us), y(us), y(us) + 4, us);
  }
  const auto line = [&](const char* color, const char* name, auto value) {
    svg += "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" + std::string(color) +
           "\" points=\"";
    for (const auto& [running, cost] : costs) {
      absl::StrAppendFormat(&svg, "%d,%.1f ", x(running), y(value(cost)));
    }
    absl::StrAppendFormat(&svg, "\"/>\n<text x=\"680\" y=\"%.0f\" fill=\"%s\">%s</text>\n",
                          y(value(costs.back().second)) + 4, color, name);
  };
  line("#2563eb", "p50", [](const Cost& cost) { return cost.p50_us; });
  line("#dc2626", "p99", [](const Cost& cost) { return cost.p99_us; });
  return svg +
         "<text x=\"370\" y=\"406\" text-anchor=\"middle\">running sequences</text>\n</svg>\n";
}

void RunOne() {
  const Load load = {.running = absl::GetFlag(FLAGS_running),
                     .waiting = absl::GetFlag(FLAGS_waiting),
                     .prompt = absl::GetFlag(FLAGS_prompt),
                     .answer = absl::GetFlag(FLAGS_answer),
                     .drafts = absl::GetFlag(FLAGS_drafts)};
  std::printf("%s", kHead);
  PrintRow(load, CostOf(load));
}

void Run() {
  std::printf("Running sequences, prompts of 200 tokens:\n%s", kHead);
  std::vector<std::pair<int, Cost>> costs;
  for (int running = 1; running <= 1024; running *= 2) {
    const Load load = {.running = running};
    costs.emplace_back(running, CostOf(load));
    PrintRow(load, costs.back().second);
  }
  std::printf("\nWaiting sequences:\n%s", kHead);
  for (const int waiting : {0, 64, 4096, 65'536}) {
    const Load load = {.waiting = waiting};
    PrintRow(load, CostOf(load));
  }
  // Making a prompt known takes time by its length; steps that go on after it should take none.
  std::printf("\nBlocks of each sequence, answers of 4,096 tokens:\n%s", kHead);
  for (const int prompt : {16, 200, 2'000, 20'000}) {
    const Load load = {.waiting = 64, .prompt = prompt, .answer = 4096};
    PrintRow(load, CostOf(load));
  }
  if (const std::string file = absl::GetFlag(FLAGS_svg); !file.empty()) {
    std::ofstream(file) << Picture(costs);
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  sluice::SetMinimumLogLevel(sluice::LogLevel::kWarning);  // not a line for every request
  if (absl::GetFlag(FLAGS_running) > 0) {
    sluice::RunOne();
  } else {
    sluice::Run();
  }
}
