#include "clients/cli/bench_phases.h"

#include <algorithm>
#include <random>
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
  load.adapters = options.adapters;
  load.drafts.set_decline(!options.drafts || options.draft_replay.has_value());
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
  for (const Phase& phase : options.phases) {
    const int times =
        phase.kind == Phase::Kind::kDecode
            ? 1 + int{options.draft_replay.has_value()} + int{options.constraint.has_value()}
            : 1;
    requests += LoadOf(phase, options, 0).requests * times;
  }
  return requests * (options.rounds + 1);
}

LoadOptions ConstrainedOf(LoadOptions load, const PhasesOptions& options) {
  load.constraint = options.constraint;
  return load;
}

LoadOptions ReplayOf(const LoadTrace& recorded, const PhasesOptions& options) {
  LoadOptions load = recorded.options;
  load.drafts.Clear();
  load.drafts.set_max_tokens(options.draft_tokens);
  for (size_t request = 0; request < recorded.requests.size(); ++request) {
    std::vector<int32_t> expected = recorded.requests[request].tokens;
    std::seed_seq seed{static_cast<uint32_t>(load.seed), static_cast<uint32_t>(load.seed >> 32),
                       static_cast<uint32_t>(request)};
    std::mt19937_64 random(seed);
    for (int32_t& token : expected) {
      const double draw = static_cast<double>(random() >> 11) * 0x1p-53;
      if (draw >= *options.draft_replay) token = (token + 1) % load.vocabulary_size;
    }
    load.expected.push_back(std::move(expected));
  }
  return load;
}

namespace {

// Runs loads one after another and counts what they come to.
class PhaseRunner {
 public:
  PhaseRunner(Client& client, const PhasesOptions& options, const LoadProgress& progress)
      : client_(client), options_(options), progress_(progress) {}

  // One round of a phase, added to its figures where it counts.
  absl::Status Run(int round, PhaseFigures& figures) {
    const absl::StatusOr<LoadTrace> plain = RunOne(LoadOf(figures.phase, options_, round));
    if (!plain.ok()) return plain.status();
    absl::Status status = AddRate(round, figures.phase, *plain, figures.tokens_per_second);
    if (figures.phase.kind != Phase::Kind::kDecode) return status;
    if (status.ok() && options_.draft_replay.has_value()) status = Replay(round, *plain, figures);
    if (status.ok() && options_.constraint.has_value()) {
      const absl::StatusOr<LoadTrace> kept = RunOne(ConstrainedOf(plain->options, options_));
      if (!kept.ok()) return kept.status();
      status = AddRate(round, figures.phase, *kept, figures.constrained_per_second);
    }
    return status;
  }

 private:
  absl::Status Replay(int round, const LoadTrace& plain, PhaseFigures& figures) {
    const absl::StatusOr<LoadTrace> replayed = RunOne(ReplayOf(plain, options_));
    if (!replayed.ok()) return replayed.status();
    for (size_t i = 0; i < replayed->requests.size(); ++i) {
      const RequestTrace& request = replayed->requests[i];
      if (request.tokens != plain.requests[i].tokens) {
        return absl::InternalError(absl::StrCat("stream ", i, " wrote other tokens with drafts"));
      }
      figures.num_drafted += round > 0 ? request.usage.num_drafted_tokens() : 0;
      figures.num_accepted += round > 0 ? request.usage.num_accepted_draft_tokens() : 0;
    }
    return AddRate(round, figures.phase, *replayed, figures.replayed_per_second);
  }

  absl::StatusOr<LoadTrace> RunOne(const LoadOptions& load) {
    absl::StatusOr<LoadTrace> trace =
        RunLoad(client_, load, [this](int finished, int64_t generated) {
          progress_(finished_ + finished, tokens_ + generated);
        });
    if (trace.ok() && client_.interrupted()) return absl::CancelledError("interrupted");
    finished_ += load.requests;
    tokens_ += int64_t{load.requests} * load.max_tokens;
    return trace;
  }

  // The first round is not counted.
  static absl::Status AddRate(int round, const Phase& phase, const LoadTrace& trace,
                              std::vector<double>& rates) {
    if (round == 0) return absl::OkStatus();
    const absl::StatusOr<double> rate = RateOf(phase, trace);
    if (rate.ok()) rates.push_back(*rate);
    return rate.status();
  }

  Client& client_;
  const PhasesOptions& options_;
  const LoadProgress& progress_;
  int finished_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<PhaseFigures>> RunPhases(Client& client, const PhasesOptions& options,
                                                    const LoadProgress& progress) {
  std::vector<PhaseFigures> figures;
  for (const Phase& phase : options.phases) figures.emplace_back().phase = phase;
  PhaseRunner runner(client, options, progress);
  for (int round = 0; round <= options.rounds; ++round) {
    for (PhaseFigures& figure : figures) {
      const absl::Status status = runner.Run(round, figure);
      if (client.interrupted()) {
        if (round < 2) return absl::CancelledError("interrupted");
        return figures;
      }
      if (!status.ok()) return status;
    }
  }
  return figures;
}

}  // namespace sluice
