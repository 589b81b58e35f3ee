// The bytes of each token. Fetched from the backend page by page on first use. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/gateway/backend/backend.h"

namespace sluice::gateway {

// Bytes by token id; ids that are no token have none.
using TokenTexts = std::vector<std::string>;

class Vocabulary {
 public:
  using Callback = std::function<void(absl::StatusOr<std::shared_ptr<const TokenTexts>>)>;

  // Borrows the backend.
  explicit Vocabulary(Backend* backend) : backend_(*backend) {}

  // On the caller's loop; at once where the texts of this model are known already. The status where
  // the model has no tokenizer is FAILED_PRECONDITION.
  void Get(const Caller& caller, const std::string& model, Callback done);

 private:
  struct Fetch;
  void FetchPage(const std::shared_ptr<Fetch>& fetch);

  Backend& backend_;
  absl::Mutex mutex_;
  std::string model_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const TokenTexts> texts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::gateway
