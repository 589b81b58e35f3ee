// The sampler as a kind of stage, and the service that compiles its constraints. Thread-safe.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "services/model/adapter_library.h"
#include "services/sampler/constraints/constraint_store.h"
#include "services/sampler/sampler.h"
#include "services/stage/chosen_tokens.h"
#include "services/stage/stage.h"
#include "sluice/v1/sampler.grpc.pb.h"

namespace sluice {

class SamplerStage final : public Stage, public v1::ConstraintService::CallbackService {
 public:
  // Borrows everything; without `progress` constraints are not watched.
  SamplerStage(Sampler* sampler, AdapterLibrary* adapters, Backend* backend,
               ProgressWatch* progress = nullptr);

  // Served beside it: where the embedding follows what was chosen.
  grpc::Service* chosen_tokens() { return &publisher_; }

  Role role() const override { return Role::kSampler; }
  absl::StatusOr<std::shared_ptr<StageSession>> MakeSession(const StageOpening& opening) override;
  void Describe(v1::GetStageInfoResponse& info) const override;

  grpc::ServerUnaryReactor* PrepareConstraint(grpc::CallbackServerContext* context,
                                              const v1::PrepareConstraintRequest* request,
                                              v1::PrepareConstraintResponse* response) override;

 private:
  Sampler& sampler_;
  AdapterLibrary& adapters_;  // touched by the worker's thread alone
  Backend& backend_;
  ChosenTokensPublisher publisher_;
  ConstraintStore constraints_;
};

}  // namespace sluice
