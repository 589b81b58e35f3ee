#include "services/gateway/backend/generation_group.h"

#include <utility>

namespace sluice::gateway {

void GenerationGroup::Start(Backend& backend, const Caller& caller,
                            std::vector<v1::GenerateRequest> requests,
                            const std::shared_ptr<http::Exchange>& exchange, Handler handler) {
  auto group = std::shared_ptr<GenerationGroup>(new GenerationGroup(std::move(handler)));
  group->finished_.resize(requests.size());
  exchange->set_on_closed([group] { group->CancelAll(); });
  exchange->set_on_drained([group] {
    for (const auto& generation : group->generations_) generation->Resume();
  });
  http::Exchange* const borrowed = exchange.get();  // the handler keeps it while it is open
  for (size_t i = 0; i < requests.size(); ++i) {
    const int prompt = static_cast<int>(i);
    // Weak: a group that was cancelled or has failed hears no more.
    const std::weak_ptr<GenerationGroup> weak = group;
    group->generations_.push_back(
        Generation::Start(backend, caller, std::move(requests[i]),
                          {.on_started =
                               [weak, prompt](const v1::Started& started) {
                                 const std::shared_ptr<GenerationGroup> self = weak.lock();
                                 if (self == nullptr || self->over_) return;
                                 if (self->handler_.on_started)
                                   self->handler_.on_started(prompt, started);
                               },
                           .on_chunk =
                               [weak, borrowed, prompt](const v1::Chunk& chunk) {
                                 const std::shared_ptr<GenerationGroup> self = weak.lock();
                                 if (self == nullptr || self->over_) return;
                                 self->handler_.on_chunk(prompt, chunk);
                                 if (self->over_ || !borrowed->congested()) return;
                                 for (const auto& generation : self->generations_)
                                   generation->Pause();
                               },
                           .on_finished =
                               [weak, prompt](const v1::Finished& finished) {
                                 if (const auto self = weak.lock())
                                   self->OnFinished(prompt, finished);
                               },
                           .on_failed =
                               [weak](const absl::Status& status) {
                                 if (const auto self = weak.lock()) self->Fail(status);
                               }}));
  }
}

void GenerationGroup::OnFinished(int prompt, const v1::Finished& finished) {
  if (over_) return;
  finished_[prompt] = finished;
  if (++num_finished_ < finished_.size()) return;
  over_ = true;
  const Handler handler = std::exchange(handler_, {});
  handler.on_finished(finished_);
}

void GenerationGroup::Fail(const absl::Status& status) {
  if (over_) return;
  CancelAll();
  const Handler handler = std::exchange(handler_, {});
  handler.on_failed(status);
}

void GenerationGroup::CancelAll() {
  over_ = true;
  for (const auto& generation : generations_) generation->Cancel();
}

}  // namespace sluice::gateway
