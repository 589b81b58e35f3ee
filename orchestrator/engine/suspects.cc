#include "orchestrator/engine/suspects.h"

namespace sluice {
namespace {

// Losses in a row from which on a request runs alone.
constexpr int kLossesUntilQuarantine = 2;

}  // namespace

std::optional<RequestId> Suspects::OnLoss(absl::Span<const RequestId> under_way) {
  for (const RequestId request : under_way) ++losses_[request];
  if (under_way.size() != 1 || num_losses(under_way.front()) <= max_losses_) return std::nullopt;
  return under_way.front();
}

void Suspects::KeepOnly(const std::function<bool(RequestId request)>& lives) {
  std::erase_if(losses_, [&lives](const auto& suspect) { return !lives(suspect.first); });
}

std::optional<RequestId> Suspects::isolated_request() const {
  std::optional<RequestId> result;
  int most = kLossesUntilQuarantine - 1;
  for (const auto& [request, losses] : losses_) {
    if (losses <= most) continue;
    most = losses;
    result = request;
  }
  return result;
}

int Suspects::num_losses(RequestId request) const {
  const auto found = losses_.find(request);
  return found == losses_.end() ? 0 : found->second;
}

}  // namespace sluice
