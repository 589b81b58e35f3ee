// A client of the simulated orchestrator: asks, takes down what it hears, goes on elsewhere with
// what it has when the orchestrator dies, and knows what it should have got.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "orchestrator/engine/request.h"
#include "tests/simulation/timeline.h"

namespace sluice::simulation {

// What a sequence comes to where nothing disturbs it.
struct SoloSequence {
  std::vector<TokenId> tokens;  // the one that stopped it included
  std::vector<float> logprobs;
  std::string text;
  EndReason reason = EndReason::kLength;
};

class Client final : public RequestSink, public std::enable_shared_from_this<Client> {
 public:
  // A request drawn by chance for a model of these dimensions; so many in a hundred of those that
  // generate are searches by beams.
  static EngineRequest RandomRequest(Chance& chance, int max_positions, int beam_percent);

  Client(EngineRequest request, int num_stages, int num_ranks);

  // The request, going on from what has come.
  EngineRequest Resumed() const;
  const EngineRequest& request() const { return request_; }

  // It leaves: nothing may come any more.
  void Leave() { left_ = true; }
  // The orchestrator that served it died: what that one still says reaches nobody.
  void NewConnection() { ++connection_; }
  // A sink for one connection.
  std::shared_ptr<RequestSink> Sink();
  // From now on an answer UNAVAILABLE is no end but calls this, as the orchestrator's death does: it
  // asks again. Not for requests with a deadline, which that may have ended.
  void OnLost(std::function<void()> on_lost) { on_lost_ = std::move(on_lost); }

  bool over() const { return left_ || num_ends_ > 0; }
  bool left() const { return left_; }
  const absl::Status& failure() const { return failure_; }

  // What is wrong with what came, or "": the tokens, their log-probabilities and text must begin as
  // those of the solo run, and be all of them where the request finished. Says what kind of request
  // it was.
  std::string Fault() const;

 private:
  class ConnectionSink;
  struct Output {
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;
    std::string text;
  };

  void OnChunk(ChunkEvent chunk) override;
  void OnFinished(RequestEnd end) override;
  void OnFailed(absl::Status status) override;
  std::string FaultOf(int index) const;
  // Such as "search by 2 beams, penalty 1, early stopping 0, stop string".
  std::string Kind() const;

  const EngineRequest request_;
  std::function<void()> on_lost_;
  std::vector<SoloSequence> solo_;
  std::vector<Output> outputs_;
  int connection_ = 0;
  bool left_ = false;
  int num_ends_ = 0;
  int num_late_ = 0;  // events after the end, or after it left
  absl::Status failure_;
  std::optional<RequestEnd> end_;
};

}  // namespace sluice::simulation
