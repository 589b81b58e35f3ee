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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/stage/open_budget.h"
#include "services/stage/plan_link.h"
#include "services/stage/stage_links.h"

namespace sluice {

// A plan with the rows that it is for.
struct StageStep {
  v1::StageExecute plan;
  v1::PushStep rows;
};

// AddPlan(), Answer() and Close() are thread-safe; the rest belongs to the thread that computes.
class StagePort final : public PlanLink, public StageLinks {
 public:
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
  StagePort(const v1::StageOpen& open, std::shared_ptr<Stream> stream, Options options);

  // Waits until the peers that this stage dials have accepted the wiring, lets the others dial in,
  // and answers Open. DEADLINE_EXCEEDED when the budget is spent; how a peer was lost.
  absl::Status Open();

  // Of Open(), and of what a session has to wait for before it.
  const OpenBudget& budget() const { return budget_; }

  // Waits for the next plan and its rows. A session that has something to do before the rows are
  // there, or gets none, calls NextPlan(), and then RowsOf().
  absl::StatusOr<StageStep> Next();

  // Ends all streams with `reason` and wakes who waits. Any number of times; the first decides.
  void Close(const absl::Status& reason);

  // The session computes no more: closes the port, and gives back what belongs to its thread.
  void Finish(const absl::Status& reason);

 private:
  // Close(), but for the streams to other stages, one of which may be the caller.
  void Lose(const absl::Status& reason, const std::function<void(const absl::Status&)>& on_close);

  const OpenBudget budget_;
  const PlanUse plan_use_;
  const std::function<void(const absl::Status&)> on_close_;
};

}  // namespace sluice
