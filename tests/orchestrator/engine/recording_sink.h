// Keeps what a request's sink hears, for tests. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "orchestrator/engine/request.h"

namespace sluice::testing {

class RecordingSink final : public RequestSink {
 public:
  void OnChunk(ChunkEvent chunk) override {
    absl::MutexLock lock(&mutex_);
    for (const TokenEvent& token : chunk.tokens) {
      tokens_[chunk.sequence_index].push_back(token.token);
    }
    text_[chunk.sequence_index] += chunk.text;
    ++num_chunks_;
  }
  void OnFinished(RequestEnd end) override {
    absl::MutexLock lock(&mutex_);
    ++num_ends_;
    end_ = std::move(end);
  }
  void OnFailed(absl::Status status) override {
    absl::MutexLock lock(&mutex_);
    ++num_ends_;
    failure_ = std::move(status);
  }

  // Waits until the request is over, a minute at most. OK where it finished, else its failure;
  // DEADLINE_EXCEEDED with "still going" where it is not over.
  absl::Status Wait() const {
    absl::MutexLock lock(&mutex_);
    const auto over = +[](const int* num_ends) { return *num_ends > 0; };
    if (!mutex_.AwaitWithTimeout(absl::Condition(over, &num_ends_), absl::Minutes(1))) {
      return absl::DeadlineExceededError("still going");
    }
    return failure_;
  }

  // Waits until a chunk has come, a minute at most.
  bool WaitForChunk() const {
    absl::MutexLock lock(&mutex_);
    const auto some = +[](const int* num_chunks) { return *num_chunks > 0; };
    return mutex_.AwaitWithTimeout(absl::Condition(some, &num_chunks_), absl::Minutes(1));
  }

  std::vector<TokenId> tokens(int sequence = 0) const {
    absl::MutexLock lock(&mutex_);
    const auto found = tokens_.find(sequence);
    return found == tokens_.end() ? std::vector<TokenId>() : found->second;
  }
  std::string text(int sequence = 0) const {
    absl::MutexLock lock(&mutex_);
    const auto found = text_.find(sequence);
    return found == text_.end() ? "" : found->second;
  }
  std::optional<RequestEnd> end() const {
    absl::MutexLock lock(&mutex_);
    return end_;
  }
  int num_ends() const {
    absl::MutexLock lock(&mutex_);
    return num_ends_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<int, std::vector<TokenId>> tokens_ ABSL_GUARDED_BY(mutex_);
  std::map<int, std::string> text_ ABSL_GUARDED_BY(mutex_);
  int num_chunks_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_ends_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::optional<RequestEnd> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::testing
