// The gRPC service of a stage, whatever its kind (protos/sluice/v1/stage.proto): checks an Open,
// runs the session that the Stage makes of it, receives rows for it, and reports on the process.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "services/model/identity.h"
#include "services/stage/activations.h"
#include "services/stage/plan_link.h"
#include "services/stage/stage.h"
#include "services/stage/stage_worker.h"
#include "sluice/v1/stage.grpc.pb.h"

namespace sluice {

class StageService final : public v1::StageService::CallbackService {
 public:
  // Borrows all but the model's description; without `progress` steps are not watched.
  StageService(ServedModel model, Stage* stage, ProgressWatch* progress = nullptr);

  grpc::ServerUnaryReactor* GetStageInfo(grpc::CallbackServerContext* context,
                                         const v1::GetStageInfoRequest* request,
                                         v1::GetStageInfoResponse* response) override;
  grpc::ServerBidiReactor<v1::StageRunRequest, v1::StageRunResponse>* Run(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* Push(
      grpc::CallbackServerContext* context) override;

 private:
  absl::StatusOr<std::shared_ptr<StageSession>> Open(const std::string& orchestrator,
                                                     const v1::StageOpen& open,
                                                     PlanLink::Stream& stream);
  void LogOpened(const v1::StageOpen& open) const;

  const ServedModel model_;
  Stage& stage_;
  ActivationsReceiver receiver_;
  StageWorker worker_;  // last: its thread uses what is above
};

}  // namespace sluice
