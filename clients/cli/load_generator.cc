#include "clients/cli/load_generator.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

class Load {
 public:
  Load(Client& client, const LoadOptions& options, const LoadProgress& progress)
      : client_(client), options_(options), progress_(progress), begin_(Clock::now()) {
    trace_.options = options;
    trace_.requests.resize(options.requests);
  }

  absl::StatusOr<LoadTrace> Run() {
    std::vector<std::thread> callers;
    const int num_callers = std::min(options_.concurrency, options_.requests);
    callers.reserve(num_callers);
    for (int i = 0; i < num_callers; ++i) callers.emplace_back([this] { CallInTurn(); });
    for (std::thread& caller : callers) caller.join();
    const absl::MutexLock lock(&mutex_);
    if (!failure_.ok() && !(client_.interrupted() && finished_ > 0)) return failure_;
    std::erase_if(trace_.requests,
                  [](const RequestTrace& trace) { return trace.arrivals.empty(); });
    trace_.wall_seconds = Now();
    return std::move(trace_);
  }

 private:
  double Now() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  void CallInTurn() {
    for (int index = NextIndex(); index >= 0; index = NextIndex()) {
      absl::StatusOr<RequestTrace> trace = Call(index);
      const absl::MutexLock lock(&mutex_);
      if (!trace.ok()) {
        failure_.Update(trace.status());
        return;
      }
      trace_.requests[index] = *std::move(trace);
      progress_(++finished_, generated_);
    }
  }

  // An interrupt ends the wait.
  void WaitForArrival(int index) const {
    if (options_.arrivals.empty()) return;
    const auto arrival = begin_ + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options_.arrivals.at(index)));
    constexpr auto kLongestSleep = std::chrono::milliseconds(200);
    while (Clock::now() < arrival && !client_.interrupted()) {
      std::this_thread::sleep_until(std::min(arrival, Clock::now() + kLongestSleep));
    }
  }

  // The number of the next request; -1: no more.
  int NextIndex() {
    const absl::MutexLock lock(&mutex_);
    return failure_.ok() && next_ < options_.requests ? next_++ : -1;
  }

  absl::StatusOr<RequestTrace> Call(int index) {
    const v1::GenerateRequest request = RequestOf(index);
    WaitForArrival(index);
    RequestTrace trace{.start = options_.arrivals.empty() ? Now() : options_.arrivals.at(index)};
    const absl::Status status =
        client_.Generate(request, absl::InfiniteDuration(), [&](const v1::GenerateResponse& event) {
          if (event.has_finished()) trace.usage = event.finished().usage();
          const int tokens = event.chunk().token_ids_size();
          if (tokens == 0) return;
          trace.tokens.insert(trace.tokens.end(), event.chunk().token_ids().begin(),
                              event.chunk().token_ids().end());
          trace.arrivals.push_back({Now(), tokens});
          const absl::MutexLock lock(&mutex_);
          generated_ += tokens;
          progress_(finished_, generated_);
        });
    trace.end = Now();
    if (!status.ok()) return status;
    if (trace.arrivals.empty()) {
      return absl::InternalError(absl::StrCat("request ", index, " ended without a token"));
    }
    return trace;
  }

  v1::GenerateRequest RequestOf(int index) const {
    v1::GenerateRequest request;
    const std::vector<int32_t> prompt = RandomPrompt(options_, index);
    request.mutable_token_ids()->mutable_token_ids()->Assign(prompt.begin(), prompt.end());
    request.set_max_tokens(options_.max_tokens);
    *request.mutable_sampling() = options_.sampling;
    if (!options_.sampling.has_temperature()) request.mutable_sampling()->set_temperature(0);
    request.mutable_sampling()->set_seed(options_.seed);
    if (options_.constraint.has_value()) {
      *request.mutable_constraint() = *options_.constraint;
      request.mutable_sampling()->set_min_tokens(options_.max_tokens);
    } else {
      request.mutable_stop()->set_ignore_eos(true);
    }
    *request.mutable_drafts() = options_.drafts;
    if (!options_.adapters.empty()) {
      request.set_adapter(options_.adapters[index % options_.adapters.size()]);
    }
    if (!options_.expected.empty()) {
      const std::vector<int32_t>& expected = options_.expected.at(index);
      request.mutable_drafts()->mutable_expected_token_ids()->Assign(expected.begin(),
                                                                     expected.end());
    }
    return request;
  }

  Client& client_;
  const LoadOptions options_;
  const LoadProgress& progress_;
  const Clock::time_point begin_;

  absl::Mutex mutex_;
  LoadTrace trace_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  int next_ ABSL_GUARDED_BY(mutex_) = 0;
  int finished_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t generated_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::vector<int32_t> RandomPrompt(const LoadOptions& options, int index) {
  std::seed_seq seed{static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32),
                     static_cast<uint32_t>(index)};
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids(options.prompt_tokens);
  // The modulo's bias is below 2^-32, and unlike a distribution's result it is the same everywhere.
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % options.vocabulary_size);
  return ids;
}

absl::StatusOr<LoadTrace> RunLoad(Client& client, const LoadOptions& options,
                                  const LoadProgress& progress) {
  return Load(client, options, progress).Run();
}

}  // namespace sluice
