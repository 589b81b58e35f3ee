// Everything of a stage that is transport, in one epoch. A session computes:
//
//   port.Open();
//   while (true) {
//     auto step = port.Next();       // the plan, and the rows of the stage before
//     port.Load(step->rows);         // into port.rows()
//     ... compute on port.rows() ...
//     port.Send({.step_id = ...});   // rows() to the next stage; or port.Answer(...)
//   }
//
// The port hides streams, lanes in shared memory, rings in device memory, sequence numbers, the
// joining of plans and rows, and how peers are waited for and lost. Every stream and memory is held
// against the wiring (epoch, nonce, model) before a byte of it is used.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/stage/open_budget.h"
#include "services/stage/plan_link.h"
#include "services/stage/stage_links.h"

namespace sluice {

// A plan with the rows that it is for.
template <class Plan>
struct StageStep {
  Plan plan;
  v1::PushStep rows;
};

// AddPlan(), Answer() and Close() are thread-safe; the rest belongs to the thread that computes.
template <class Request, class Response>
class StagePort final : public PlanLink<Request, Response>, public StageLinks {
 public:
  using typename PlanLink<Request, Response>::Plan;
  using typename PlanLink<Request, Response>::Stream;
  using Step = StageStep<Plan>;

  struct Options {
    WiringIdentity wiring;
    StageMemory memory;
    StagePeers peers;
    PlanUse plans = PlanUse::kTaken;
    // Called with the first reason whenever the port closes, from any thread, possibly before the
    // constructor returns: wakes what the session waits for besides the port.
    std::function<void(const absl::Status&)> on_close = nullptr;
  };

  // Of a stream whose client has sent `open`. Dials the peers at once.
  template <class OpenMessage>
  StagePort(const OpenMessage& open, std::shared_ptr<Stream> stream, Options options)
      : PlanLink<Request, Response>(open, options.wiring, std::move(stream)),
        StageLinks(options.wiring, options.memory, std::move(options.peers),
                   [this, on_close = options.on_close](const absl::Status& status) {
                     Lose(status, on_close);
                   }),
        budget_(open),
        plan_use_(options.plans),
        on_close_(std::move(options.on_close)) {}

  // Waits until the peers that this stage dials have accepted the wiring, lets the others dial in,
  // and answers Open. DEADLINE_EXCEEDED when the budget is spent; how a peer was lost.
  absl::Status Open() {
    const absl::Status status = OpenLinks(budget_);
    if (status.ok()) this->SendOpened(wiring(), plan_use_);
    return status;
  }

  // Of Open(), and of what a session has to wait for before it.
  const OpenBudget& budget() const { return budget_; }

  // Waits for the next plan and its rows. A session that has something to do before the rows are
  // there, or gets none, calls NextPlan(), and then RowsOf().
  absl::StatusOr<Step> Next() {
    absl::StatusOr<Plan> plan = this->NextPlan();
    if (!plan.ok()) return plan.status();
    absl::StatusOr<v1::PushStep> rows = RowsOf(plan->step_id());
    if (!rows.ok()) return rows.status();
    return Step{*std::move(plan), *std::move(rows)};
  }

  // Ends all streams with `reason` and wakes who waits. Any number of times; the first decides.
  void Close(const absl::Status& reason) {
    Lose(reason, on_close_);
    Cancel();
  }

  // The session computes no more: closes the port, and gives back what belongs to its thread.
  void Finish(const absl::Status& reason) {
    Close(reason.ok() ? absl::CancelledError("the session is over") : reason);
    Release();
  }

 private:
  // Close(), but for the streams to other stages, one of which may be the caller.
  void Lose(const absl::Status& reason, const std::function<void(const absl::Status&)>& on_close) {
    const absl::Status first = this->ClosePlans(reason);
    Stop(first);
    if (on_close != nullptr) on_close(first);
  }

  const OpenBudget budget_;
  const PlanUse plan_use_;
  const std::function<void(const absl::Status&)> on_close_;
};

}  // namespace sluice
