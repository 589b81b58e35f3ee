// Which request may be the one that kills the replica. After a loss nobody knows: everything that
// was under way is suspect, and most losses have nothing to do with any request. So the first loss
// changes nothing; a request over which the replica was lost twice, with no new token in between,
// stands trial: it runs alone, one suspect after the other, until it has a token or is convicted.
// A trial costs innocents a pause of one prompt each, and the replica one loss more, however many
// were suspect.
//
// A pure state machine.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/scheduler/sequence.h"

namespace sluice {

class Suspects {
 public:
  // A request is convicted after more losses than this, if at the last no other was in flight.
  explicit Suspects(int max_losses) : max_losses_(max_losses) {}

  // The replica was lost while steps of these requests, each named once, were under way. Returns
  // the one that this convicts: it ends with an error.
  std::optional<RequestId> OnLoss(absl::Span<const RequestId> under_way);

  bool empty() const { return losses_.empty(); }

  // It has a new token, or has ended: it is no suspect any more.
  void Clear(RequestId request) { losses_.erase(request); }

  // Forgets those that are gone.
  void KeepOnly(const std::function<bool(RequestId request)>& lives);

  // It can't run alone, for lack of what others hold: it runs with them once more.
  void Release(RequestId request) { losses_[request] = 1; }

  // The request to run alone now: of the suspects with two losses or more, the one with most.
  std::optional<RequestId> isolated_request() const;

  // Over this request, since its last token.
  int num_losses(RequestId request) const;

 private:
  const int max_losses_;
  std::map<RequestId, int> losses_;  // of suspects
};

}  // namespace sluice
