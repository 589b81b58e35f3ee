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

  void AskEmbedding(const std::string& address, absl::Duration timeout,
                    InfoCallback<v1::GetEmbeddingInfoResponse> callback) override;
  void AskShard(const std::string& address, absl::Duration timeout,
                InfoCallback<v1::GetShardInfoResponse> callback) override;
  void AskSampler(const std::string& address, absl::Duration timeout,
                  InfoCallback<v1::GetSamplerInfoResponse> callback) override;
  absl::StatusOr<std::unique_ptr<EmbeddingStream>> RunEmbedding(
      const std::string& address, EmbeddingStream::Handler handler) override;
  absl::StatusOr<std::unique_ptr<ShardStream>> RunShard(const std::string& address,
                                                        ShardStream::Handler handler) override;
  absl::StatusOr<std::unique_ptr<SamplerStream>> RunSampler(
      const std::string& address, SamplerStream::Handler handler) override;

  void Refuse(const std::string&, const std::string&) override {}

 private:
  template <class Response>
  void Ask(const std::string& address, InfoCallback<Response> callback);
  template <class Run>
  auto Start(const std::string& address, decltype(Run::handler) handler);

  StageWorld& world_;
  const HostId host_;
};

// A stream to the tokenizer at `tokenizer`, whose state lives and ends with the stream: a token's
// text is "<id>", stop strings are texts of single tokens.
OpenDetokenizeStream DetokenizeFrom(Network* network, HostId host, HostId tokenizer);

// The text of a token.
std::string TextOf(int32_t token);

}  // namespace sluice::simulation
