// The orchestrator's ways to the simulated processes: StageNetwork, and the tokenizer's stream.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/pipeline/stage_network.h"
#include "orchestrator/text/text_streams.h"
#include "tests/simulation/network.h"
#include "tests/simulation/stage_process.h"

namespace sluice::simulation {

class SimulatedStageNetwork final : public StageNetwork {
 public:
  // Calls from `host` into the world; both are borrowed.
  SimulatedStageNetwork(StageWorld* world, HostId host) : world_(*world), host_(host) {}

  void Ask(Role role, const std::string& address, absl::Duration timeout,
           InfoCallback callback) override;
  absl::StatusOr<std::unique_ptr<Stream>> Run(Role role, const std::string& address,
                                              Stream::Handler handler) override;

  void Refuse(const std::string&, const std::string&) override {}

 private:
  StageWorld& world_;
  const HostId host_;
};

// A stream to the tokenizer at `tokenizer`, whose state lives and ends with the stream: a token's
// text is "<id>", stop strings are texts of single tokens.
OpenDetokenizeStream DetokenizeFrom(Network* network, HostId host, HostId tokenizer);

// The text of a token.
std::string TextOf(int32_t token);

}  // namespace sluice::simulation
