// A Generate call that outlives the orchestrator it was made to: when the connection is lost the
// call is made again, there or at another endpoint, with the tokens that came so far, and goes on
// after them. So the request always has a seed.
//
// Belongs to the caller's loop: called and calling back there alone. The server is told of a pause, so
// that the sequences rest.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/common/steady_time.h"
#include "services/gateway/backend/backend.h"
#include "services/gateway/backend/call.h"

namespace sluice::gateway {

class Generation final : public CallListener, public std::enable_shared_from_this<Generation> {
 public:
  struct Handler {
    // Once, before anything else; may be empty.
    std::function<void(const v1::Started&)> on_started;
    std::function<void(const v1::Chunk&)> on_chunk;
    // Exactly one of these, last; neither after Cancel().
    std::function<void(const v1::Finished&)> on_finished;
    std::function<void(const absl::Status&)> on_failed;
  };

  // Borrows the backend.
  static std::shared_ptr<Generation> Start(Backend& backend, Caller caller,
                                           v1::GenerateRequest request, Handler handler);
  ~Generation() override;

  // Between the two no events come but those that were on their way.
  void Pause();
  void Resume();
  // The server ends the sequences; nothing is called back any more.
  void Cancel();

 private:
  Generation(Backend& backend, Caller caller, v1::GenerateRequest request, Handler handler);

  void Try();
  void OnEvent(const v1::GenerateResponse& event) override;
  void OnEnd(const absl::Status& status) override;
  void NoteTokens(const v1::Chunk& chunk);
  void NoteTimes(const v1::Chunk& chunk);

  Backend& backend_;
  const Caller caller_;
  v1::GenerateRequest request_;  // `resume` grows with what comes
  Handler handler_;
  Route route_;
  std::shared_ptr<Call> call_;
  bool begun_ = false;                 // something has come
  std::optional<SteadyTime> give_up_;  // when a lost call is not made again; nothing while none is
  const SteadyTime started_;
  std::vector<SteadyTime> last_token_;  // by sequence
  bool has_started_ = false;
  bool paused_ = false;
  bool over_ = false;
};

}  // namespace sluice::gateway
