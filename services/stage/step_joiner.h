// Joins what a stage needs for a step: the plan from the orchestrator and the hidden rows from the
// stage before, which come over different streams in any order.
//
// Plans are taken in their order, rows by step. NextPlan() and RowsOf() belong to the thread that
// works; the rest is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "services/lane/lane_inbox.h"
#include "sluice/v1/activations.pb.h"

namespace sluice {

// Request: a Run stream's, with execute().
template <class Request>
class StepJoiner {
 public:
  using Plan = std::remove_cvref_t<decltype(std::declval<const Request&>().execute())>;

  explicit StepJoiner(uint64_t epoch) : epoch_(epoch) {}

  // What comes, by streams and lanes.
  LaneInbox<Request>& plans() { return plans_; }
  LaneInbox<v1::PushRequest>& rows() { return rows_; }

  // Waits for the next plan. What this was closed with; errors of LaneInbox::Next().
  absl::StatusOr<Plan> NextPlan() {
    absl::StatusOr<Request> request = plans_.Next();
    if (!request.ok()) return request.status();
    if (!request->has_execute()) return absl::InvalidArgumentError("a request without a plan");
    return std::move(*request->mutable_execute());
  }

  // Waits for the rows of a step, which may be told once. Statuses as above, ABORTED for rows of
  // another epoch, and INVALID_ARGUMENT where rows of other steps come without end.
  absl::StatusOr<v1::PushStep> RowsOf(uint64_t step_id) {
    while (!early_.contains(step_id)) {
      absl::StatusOr<v1::PushRequest> request = rows_.Next();
      if (!request.ok()) return request.status();
      v1::PushStep& step = *request->mutable_step();
      if (step.epoch() != epoch_) {
        return absl::AbortedError(
            absl::StrCat("rows of epoch ", step.epoch(), " on a stream of epoch ", epoch_));
      }
      const uint64_t id = step.step_id();
      if (early_.size() >= kMostEarly) {
        return absl::InvalidArgumentError(
            absl::StrCat("rows of ", early_.size(), " steps came before those of step ", step_id));
      }
      early_.insert_or_assign(id, std::move(step));
    }
    return std::move(early_.extract(step_id).mapped());
  }

  // Wakes who waits.
  void Close(const absl::Status& reason) {
    plans_.Close(reason);
    rows_.Close(reason);
  }

 private:
  // Steps whose rows may come before their plan's turn; an orchestrator has a few under way.
  static constexpr size_t kMostEarly = 4096;

  const uint64_t epoch_;
  LaneInbox<Request> plans_;
  LaneInbox<v1::PushRequest> rows_;
  std::map<uint64_t, v1::PushStep> early_;  // rows whose turn has not come, by step
};

}  // namespace sluice
