#include "clients/cli/bench_phases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

// Of a decode phase: short, since the phase is about weights and not about attention.
constexpr int kDecodePrompt = 16;
constexpr int kMostCount = 1 << 20;
constexpr int kMostStreams = 4096;  // each is a thread

absl::StatusOr<Phase> ParsePhase(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  Phase phase;
  const bool known = parts.first == "prefill" || parts.first == "decode";
  if (parts.first == "decode") phase.kind = Phase::Kind::kDecode;
  const int most = phase.kind == Phase::Kind::kDecode ? kMostStreams : kMostCount;
  if (!known || !absl::SimpleAtoi(parts.second, &phase.count) || phase.count < 1 ||
      phase.count > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is neither prefill:TOKENS nor decode:STREAMS; accepted: 1 to ",
                     kMostCount, " tokens, 1 to ", kMostStreams, " streams"));
  }
  return phase;
}

double RateOfPrefill(const LoadTrace& trace) {
  const RequestTrace& request = trace.requests.front();
  return trace.options.prompt_tokens / (request.arrivals.front().seconds - request.start);
}

}  // namespace

absl::StatusOr<std::vector<Phase>> ParsePhases(const std::string& text) {
  std::vector<Phase> phases;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::StatusOr<Phase> phase = ParsePhase(part);
    if (!phase.ok()) return phase.status();
    phases.push_back(*phase);
  }
  return phases;
}

LoadOptions LoadOf(const Phase& phase, const PhasesOptions& options, int round) {
  LoadOptions load;
  const bool prefill = phase.kind == Phase::Kind::kPrefill;
  load.prompt_tokens = prefill ? phase.count : kDecodePrompt;
  load.max_tokens = prefill ? 1 : options.max_tokens;
  load.concurrency = load.requests = prefill ? 1 : phase.count;
  load.vocabulary_size = options.vocabulary_size;
  // Different for every phase as well: a prompt that begins like an earlier one has less to
  // compute.
  const int phase_number = phase.count + (prefill ? 0 : kMostCount);
  load.sampling = options.sampling;
  load.seed = options.seed + uint64_t{2} * kMostCount * round + phase_number;
  return load;
}

absl::StatusOr<double> RateOf(const Phase& phase, const LoadTrace& trace) {
  if (phase.kind == Phase::Kind::kPrefill) return RateOfPrefill(trace);
  double all_began = 0;
  double first_ended = trace.wall_seconds;
  for (const RequestTrace& request : trace.requests) {
    all_began = std::max(all_began, request.arrivals.front().seconds);
    first_ended = std::min(first_ended, request.arrivals.back().seconds);
  }
  int64_t tokens = 0;
  for (const RequestTrace& request : trace.requests) {
    for (const Arrival& arrival : request.arrivals) {
      if (arrival.seconds > all_began && arrival.seconds <= first_ended) tokens += arrival.tokens;
    }
  }
  if (first_ended <= all_began || tokens == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the first of ", trace.requests.size(),
                     " streams ended before all had begun; let them write more than ",
                     trace.options.max_tokens, " tokens"));
  }
  return static_cast<double>(tokens) / (first_ended - all_began);
}

int NumRequests(const PhasesOptions& options) {
  int requests = 0;
  for (const Phase& phase : options.phases) requests += LoadOf(phase, options, 0).requests;
  return requests * (options.rounds + 1);
}

absl::StatusOr<std::vector<PhaseFigures>> RunPhases(Client& client, const PhasesOptions& options,
                                                    const LoadProgress& progress) {
  std::vector<PhaseFigures> figures;
  for (const Phase& phase : options.phases) figures.push_back({.phase = phase});
  int finished = 0;
  int64_t tokens = 0;
  for (int round = 0; round <= options.rounds; ++round) {
    for (PhaseFigures& figure : figures) {
      const LoadOptions load = LoadOf(figure.phase, options, round);
      const absl::StatusOr<LoadTrace> trace =
          RunLoad(client, load, [&](int now_finished, int64_t now_generated) {
            progress(finished + now_finished, tokens + now_generated);
          });
      if (client.interrupted()) {
        if (round < 2) return absl::CancelledError("interrupted");
        return figures;
      }
      if (!trace.ok()) return trace.status();
      finished += load.requests;
      tokens += int64_t{load.requests} * load.max_tokens;
      if (round == 0) continue;
      const absl::StatusOr<double> rate = RateOf(figure.phase, *trace);
      if (!rate.ok()) return rate.status();
      figure.tokens_per_second.push_back(*rate);
    }
  }
  return figures;
}

}  // namespace sluice
