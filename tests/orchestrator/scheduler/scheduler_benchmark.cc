// What planning and committing a step costs, over the sequences that run, those that wait, and the
// blocks that each has. Every run is checked: the steps decode what they should. Times are of the
// thread's own processor time, so that other load on the machine shows less.
//
//   scheduler_benchmark [--svg=FILE]
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/check.h"
#include "orchestrator/scheduler/scheduler.h"

ABSL_FLAG(std::string, svg, "", "also draws the first table into this file");

namespace sluice {
namespace {

struct Load {
  int running = 256;
  int waiting = 4096;
  int prompt = 200;  // tokens
};

struct Cost {
  double p50_us = 0;
  double p99_us = 0;
};

double ThreadMicroseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// Keeps `load` on a scheduler: whoever ends makes room for one that waits, and another one comes.
class Bench {
 public:
  explicit Bench(const Load& load)
      : load_(load),
        scheduler_({.max_tokens_per_step = 1 << 25,
                    .max_sequences_per_step = load.running,
                    .max_queued_sequences = load.waiting + load.running,
                    .max_queued_tokens = 1 << 30,
                    .max_positions = 1 << 20,
                    .max_inflight_steps = 1,
                    .longest_like = nullptr,
                    .tenant_policies = nullptr},
                   {.num_blocks = load.running * (load.prompt / 16 + 20), .block_size = 16}) {
    for (int i = 0; i < load.running + load.waiting; ++i) Add();
    for (int i = 0; i < 300; ++i) Step();  // everybody is somewhere else in his answer
  }

  Cost Measure(int num_steps) {
    std::vector<double> times;
    times.reserve(num_steps);
    for (int i = 0; i < num_steps; ++i) times.push_back(Step());
    std::sort(times.begin(), times.end());
    return {.p50_us = times[times.size() / 2], .p99_us = times[times.size() * 99 / 100]};
  }

 private:
  void Add() {
    SequenceSpec spec;
    spec.id = ++last_id_;
    spec.tenant = absl::StrCat("tenant ", last_id_ % 8);
    spec.prompt.resize(load_.prompt);
    for (int i = 0; i < load_.prompt; ++i) {
      spec.prompt[i] = static_cast<TokenId>((last_id_ * 7919 + i) % 50'000);
    }
    spec.max_new_tokens = 64 + static_cast<int>(last_id_ * 37 % 128);
    SLUICE_CHECK(scheduler_.Add(std::move(spec)).ok());
  }

  // The microseconds that Plan and Commit took.
  double Step() {
    const double start = ThreadMicroseconds();
    const std::optional<sluice::Step> step = scheduler_.Plan();
    const double planned = ThreadMicroseconds();
    SLUICE_CHECK(step.has_value() && std::ssize(step->segments) == load_.running);
    const std::vector<TokenId> tokens(step->num_rows(), 1);
    const double executed = ThreadMicroseconds();
    const absl::StatusOr<StepOutcome> outcome = scheduler_.Commit(step->id, tokens);
    const double committed = ThreadMicroseconds();
    SLUICE_CHECK(outcome.ok() && outcome->rows.size() == tokens.size());
    for (size_t i = 0; i < outcome->finished.size(); ++i) Add();
    return planned - start + committed - executed;
  }

  const Load load_;
  Scheduler scheduler_;
  SequenceId last_id_ = 0;
};

Cost CostOf(const Load& load) { return Bench(load).Measure(2000); }

void PrintRow(const Load& load, const Cost& cost) {
  std::printf("| %7d | %7d | %6d | %8.1f | %8.1f | %15.2f |\n", load.running, load.waiting,
              load.prompt, cost.p50_us, cost.p99_us, cost.p50_us / load.running);
  std::fflush(stdout);
}

constexpr char kHead[] =
    "| running | waiting | prompt | p50 (us) | p99 (us) | p50 / token (us) |\n"
    "|--------:|--------:|-------:|---------:|---------:|----------------:|\n";

// Microseconds over running sequences, both by powers of two.
std::string Picture(const std::vector<std::pair<int, Cost>>& costs) {
  const auto x = [](int running) {
    int power = 0;
    while ((1 << power) < running) ++power;
    return 70 + 60 * power;
  };
  const auto y = [](double us) { return 360 - 30 * std::log2(std::max(us, 0.5) / 0.5); };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 420\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"13\">\n"
      "<text x=\"70\" y=\"22\" font-size=\"15\">Plan and commit of one step, 4,096 "
      "waiting</text>\n";
  for (int power = 0; power <= 10; ++power) {
    absl::StrAppendFormat(
        &svg, "<text x=\"%d\" y=\"382\" text-anchor=\"middle\" fill=\"#555\">%d</text>\n",
        70 + 60 * power, 1 << power);
  }
  for (const double us : {0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0}) {
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
  std::printf("\nBlocks of each sequence:\n%s", kHead);
  for (const int prompt : {16, 200, 2'000, 20'000}) {
    const Load load = {.waiting = 64, .prompt = prompt};
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
  sluice::Run();
}
