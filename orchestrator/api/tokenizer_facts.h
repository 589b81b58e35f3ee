// What the tokenizer is, asked once: a model's folder may have none. Thread-safe.
#pragma once

#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "orchestrator/text/tokenizer_client.h"
#include "sluice/v1/tokenizer.pb.h"

namespace sluice {

class TokenizerFacts {
 public:
  using Callback = std::function<void(absl::StatusOr<v1::GetTokenizerInfoResponse>)>;

  // Borrows the client.
  explicit TokenizerFacts(TokenizerClient* client) : client_(client) {}

  // Calls back at once where the answer is known, else when the tokenizer has answered or
  // `deadline` has passed.
  void Get(absl::Time deadline, Callback callback) {
    std::optional<v1::GetTokenizerInfoResponse> known;
    {
      absl::MutexLock lock(&mutex_);
      known = known_;
    }
    if (known.has_value()) return callback(*known);
    client_->GetInfo(deadline, [this, callback = std::move(callback)](
                                   absl::StatusOr<v1::GetTokenizerInfoResponse> info) {
      if (info.ok()) {
        absl::MutexLock lock(&mutex_);
        known_ = *info;
      }
      callback(std::move(info));
    });
  }

 private:
  TokenizerClient* const client_;
  absl::Mutex mutex_;
  std::optional<v1::GetTokenizerInfoResponse> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
