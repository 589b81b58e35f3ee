// Connections from the orchestrator to the processes of a replica: gRPC, or a simulated network.
// Runs on one event loop, which makes all callbacks; none is made from within a call.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/streams/message_stream.h"
#include "sluice/v1/embedding.pb.h"
#include "sluice/v1/sampler.pb.h"
#include "sluice/v1/shard.pb.h"

namespace sluice {

class StageNetwork {
 public:
  using EmbeddingStream = MessageStream<v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>;
  using ShardStream = MessageStream<v1::ShardRunRequest, v1::ShardRunResponse>;
  using SamplerStream = MessageStream<v1::SamplerRunRequest, v1::SamplerRunResponse>;

  // Called once, or never after the loop has stopped.
  template <class Response>
  using InfoCallback = std::function<void(absl::StatusOr<Response> info)>;

  virtual ~StageNetwork() = default;

  // GetInfo of the process at `address`, which is given up after `timeout`.
  virtual void AskEmbedding(const std::string& address, absl::Duration timeout,
                            InfoCallback<v1::GetEmbeddingInfoResponse> callback) = 0;
  virtual void AskShard(const std::string& address, absl::Duration timeout,
                        InfoCallback<v1::GetShardInfoResponse> callback) = 0;
  virtual void AskSampler(const std::string& address, absl::Duration timeout,
                          InfoCallback<v1::GetSamplerInfoResponse> callback) = 0;

  // The process at `address` can't be used, and why; "": it can. It is told when it is asked next.
  virtual void Refuse(const std::string& address, const std::string& reason) = 0;

  // A Run stream to the process at `address`. The error of an address that can't be dialled; a
  // process that is not there ends the stream.
  virtual absl::StatusOr<std::unique_ptr<EmbeddingStream>> RunEmbedding(
      const std::string& address, EmbeddingStream::Handler handler) = 0;
  virtual absl::StatusOr<std::unique_ptr<ShardStream>> RunShard(const std::string& address,
                                                                ShardStream::Handler handler) = 0;
  virtual absl::StatusOr<std::unique_ptr<SamplerStream>> RunSampler(
      const std::string& address, SamplerStream::Handler handler) = 0;
};

}  // namespace sluice
