// One sequence's text under its constraint: which tokens may come next, as a function of the tokens
// so far. Asking takes no time; masks are made elsewhere (MaskQueue). Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "services/common/steady_time.h"
#include "services/sampler/constraints/constraint_store.h"
#include "services/sampler/constraints/mask_queue.h"

namespace sluice {

class ConstrainedText {
 public:
  // Of a constraint that is compiled, or could not be: every mask says why.
  explicit ConstrainedText(const ConstraintStore::Result& constraint);
  // Of one that may have to be compiled: its questions wait for that. The store is borrowed.
  ConstrainedText(ConstraintStore& store, const v1::Constraint& constraint, const WorkOwner& owner);
  ConstrainedText(ConstrainedText&& other) noexcept;
  ConstrainedText& operator=(ConstrainedText&& other) noexcept;
  // Nobody waits for the constraint here any more.
  ~ConstrainedText();

  // Takes the place of the question before, unless that asks for as much already: its answer stays.
  void Ask(MaskQuery query);
  // The answer to the last question; null where it has not come by `deadline`, which is finite. Valid
  // until the next question. REQUIRES: there was one.
  const MaskAnswer* Answer(SteadyTime deadline);

  // The processor time that was spent on this text since the last call.
  absl::Duration TakeWork();

 private:
  // Leaves the store when it goes.
  struct Wait;

  std::shared_ptr<MaskExchange> exchange_;
  std::unique_ptr<Wait> wait_;  // null: the constraint was known
  MaskQuery last_;
  bool has_asked_ = false;
};

}  // namespace sluice
