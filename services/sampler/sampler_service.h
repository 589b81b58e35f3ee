// The gRPC face of the sampler: decodes, hands to a session, encodes. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "services/model/identity.h"
#include "services/sampler/constraints/constraint_store.h"
#include "services/sampler/sampler.h"
#include "services/sampler/sampler_session.h"
#include "services/stage/activations.h"
#include "services/stage/chosen_tokens.h"
#include "services/stage/stage_worker.h"
#include "sluice/v1/sampler.grpc.pb.h"

namespace sluice {

class SamplerService final : public v1::SamplerService::CallbackService {
 public:
  // Borrows everything but the model's description; without `progress` steps are not watched.
  SamplerService(ServedModel model, Sampler* sampler, Backend* backend,
                 ProgressWatch* progress = nullptr);

  // Served beside this one: where the last shard stage sends its rows.
  grpc::Service* activations() { return &receiver_; }
  // And where the embedding hears of what was chosen.
  grpc::Service* chosen_tokens() { return &publisher_; }

  grpc::ServerBidiReactor<v1::SamplerRunRequest, v1::SamplerRunResponse>* Run(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* PrepareConstraint(grpc::CallbackServerContext* context,
                                              const v1::PrepareConstraintRequest* request,
                                              v1::PrepareConstraintResponse* response) override;
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::GetSamplerInfoRequest* request,
                                    v1::GetSamplerInfoResponse* response) override;

 private:
  absl::StatusOr<std::shared_ptr<SamplerSession>> Open(const std::string& orchestrator,
                                                       const v1::SamplerOpen& open,
                                                       SamplerSession::Stream& stream);

  const ServedModel model_;
  Sampler* const sampler_;
  Backend* const backend_;
  ActivationsReceiver receiver_;
  ChosenTokensPublisher publisher_;
  ConstraintStore constraints_;
  std::atomic<uint64_t> num_steps_ = 0;
  StageWorker worker_;  // last: its thread uses what is above
};

}  // namespace sluice
