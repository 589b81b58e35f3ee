#include "services/stage/stage_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/messages/wiring_message.h"
#include "services/process/log.h"
#include "services/stage/run_stream.h"

namespace sluice {

StageService::StageService(ServedModel model, Stage* stage, ProgressWatch* progress)
    : model_(std::move(model)), stage_(*stage), worker_(progress) {}

grpc::ServerUnaryReactor* StageService::GetStageInfo(grpc::CallbackServerContext* context,
                                                     const v1::GetStageInfoRequest*,
                                                     v1::GetStageInfoResponse* response) {
  response->set_model_name(model_.name);
  response->set_model_fingerprint(model_.fingerprint);
  response->set_weights_digest(model_.weights_digest);
  response->set_epoch(worker_.epoch());
  response->set_tenure(worker_.tenure());
  stage_.Describe(*response);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerBidiReactor<v1::StageRunRequest, v1::StageRunResponse>* StageService::Run(
    grpc::CallbackServerContext* context) {
  return ServeRunStream(*context, [this, orchestrator = OrchestratorOf(*context)](
                                      const v1::StageOpen& open, PlanLink::Stream& stream) {
    return Open(orchestrator, open, stream);
  });
}

absl::StatusOr<std::shared_ptr<StageSession>> StageService::Open(const std::string& orchestrator,
                                                                 const v1::StageOpen& open,
                                                                 PlanLink::Stream& stream) {
  if (StageRoleOf(open) != stage_.role()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Open for another kind of stage than ", Name(stage_.role())));
  }
  const absl::StatusOr<WiringIdentity> wiring = WiringToOpen(open, model_.fingerprint);
  if (!wiring.ok()) return wiring.status();
  absl::StatusOr<std::shared_ptr<StageSession>> session =
      stage_.MakeSession({.open = open,
                          .wiring = *wiring,
                          .stream = stream.shared_from_this(),
                          .receiver = receiver_,
                          .on_step = [this] { worker_.NoteStep(); }});
  if (!session.ok()) return session;
  const absl::Status status =
      worker_.Switch(orchestrator, open.orchestrator_nonce(), open.epoch(), *session);
  if (!status.ok()) return status;
  stage_.SessionAccepted(*wiring);
  LogOpened(open);
  return session;
}

void StageService::LogOpened(const v1::StageOpen& open) const {
  v1::GetStageInfoResponse self;
  stage_.Describe(self);
  if (self.has_shard()) {
    return Log(
        LogLevel::kInfo, "shard", "epoch-opened",
        {{"epoch", open.epoch()}, {"stage", self.shard().stage()}, {"rank", self.shard().rank()}});
  }
  Log(LogLevel::kInfo, Name(stage_.role()), "epoch-opened",
      {{"epoch", open.epoch()}, {"next_stage", open.next_stage()}});
}

grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* StageService::Push(
    grpc::CallbackServerContext* context) {
  if (stage_.TakesRows()) return receiver_.Serve(context);
  return v1::StageService::CallbackService::Push(context);  // UNIMPLEMENTED
}

}  // namespace sluice
