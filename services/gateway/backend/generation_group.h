// The generations of one HTTP request, which may have several prompts: they begin together, fail
// together and are finished when all are. Belongs to the caller's loop.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "services/gateway/backend/generation.h"
#include "services/gateway/http/exchange.h"

namespace sluice::gateway {

class GenerationGroup {
 public:
  struct Handler {
    // Once for each prompt, before anything else of it; may be empty.
    std::function<void(int prompt, const v1::Started&)> on_started;
    std::function<void(int prompt, const v1::Chunk&)> on_chunk;
    // Exactly one of these, last; neither where the client leaves before. The last events, by
    // prompt.
    std::function<void(const std::vector<v1::Finished>&)> on_finished;
    std::function<void(const absl::Status&)> on_failed;
  };

  // Ties the generations to the exchange: they pause while it is congested, and are cancelled when
  // its client leaves. The exchange keeps the group alive until then.
  static void Start(Backend& backend, const Caller& caller,
                    std::vector<v1::GenerateRequest> requests,
                    const std::shared_ptr<http::Exchange>& exchange, Handler handler);

 private:
  explicit GenerationGroup(Handler handler) : handler_(std::move(handler)) {}

  void OnFinished(int prompt, const v1::Finished& finished);
  void Fail(const absl::Status& status);
  void CancelAll();

  Handler handler_;
  std::vector<std::shared_ptr<Generation>> generations_;
  std::vector<v1::Finished> finished_;
  size_t num_finished_ = 0;
  bool over_ = false;
};

}  // namespace sluice::gateway
