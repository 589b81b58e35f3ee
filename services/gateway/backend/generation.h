// A Generate call that outlives the orchestrator it was made to: when the connection is lost the
// call is made again, there or at another endpoint, with the tokens that came so far, and goes on
// after them. So the request always has a seed.
//
// Belongs to the caller's loop: called and calling back there alone. At most one event is read
// ahead of what was handled, so a paused generation holds the server's stream back as well.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/common/steady_time.h"
#include "services/gateway/backend/backend.h"

namespace sluice::gateway {

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  struct Handler {
    std::function<void(const v1::Chunk&)> on_chunk;
    // Exactly one of these, last; neither after Cancel().
    std::function<void(const v1::Finished&)> on_finished;
    std::function<void(const absl::Status&)> on_failed;
  };

  // Borrows the backend.
  static std::shared_ptr<Generation> Start(Backend& backend, Caller caller,
                                           v1::GenerateRequest request, Handler handler);
  ~Generation();

  // No event is read between the two.
  void Pause() { paused_ = true; }
  void Resume();
  // The server ends the sequences; nothing is called back any more.
  void Cancel();

 private:
  class Attempt;

  Generation(Backend& backend, Caller caller, v1::GenerateRequest request, Handler handler);

  void Try();
  void OnEvent(const v1::GenerateResponse& event);
  void OnEnd(const absl::Status& status);
  void NoteTokens(const v1::Chunk& chunk);
  void NoteTimes(const v1::Chunk& chunk);

  Backend& backend_;
  const Caller caller_;
  v1::GenerateRequest request_;  // `resume` grows with what comes
  Handler handler_;
  std::shared_ptr<Attempt> attempt_;
  SteadyTime give_up_;  // when a lost call is not made again any more
  const SteadyTime started_;
  std::vector<SteadyTime> last_token_;  // by sequence
  bool paused_ = false;
  bool wants_read_ = false;  // an event was handled while paused
  bool over_ = false;
};

}  // namespace sluice::gateway
