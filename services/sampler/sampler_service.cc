#include "services/sampler/sampler_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/messages/wiring_message.h"
#include "services/process/log.h"
#include "services/sampler/work_owner_message.h"
#include "services/stage/run_stream.h"
#include "services/work/work_metadata.h"

namespace sluice {
namespace {

// A caller that waits until its constraint is compiled, or leaves.
class ConstraintCall final : public grpc::ServerUnaryReactor {
 public:
  // Borrows the store until it is done.
  ConstraintCall(ConstraintStore& store, grpc::CallbackServerContext& context,
                 const v1::PrepareConstraintRequest& request)
      : store_(store),
        ticket_(store.Prepare(
            request.constraint(), OwnerOf(request.owner()),
            [this, &context](const ConstraintStore::Result& result, absl::Duration work) {
              SetWork(work, context);
              Finish(ToGrpc(result.status()));
            },
            MaxWork(request))) {}

  void OnCancel() override { store_.Leave(ticket_); }
  void OnDone() override { delete this; }

 private:
  static absl::Duration MaxWork(const v1::PrepareConstraintRequest& request) {
    constexpr uint64_t kMost = uint64_t{1} << 60;
    return request.max_work_us() == 0
               ? absl::InfiniteDuration()
               : absl::Microseconds(std::min<uint64_t>(request.max_work_us(), kMost));
  }

  ConstraintStore& store_;
  const ConstraintStore::Ticket ticket_;
};

// A job that comes to its next checkpoint makes progress, however long it takes in all.
ConstraintStore::Options OptionsOf(ProgressWatch* progress) {
  ConstraintStore::Options options;
  options.work.progress = progress;
  return options;
}

}  // namespace

SamplerService::SamplerService(ServedModel model, Sampler* sampler, Backend* backend,
                               ProgressWatch* progress)
    : model_(std::move(model)),
      sampler_(sampler),
      backend_(backend),
      constraints_(sampler->vocab_size(), OptionsOf(progress)),
      worker_(progress) {}

grpc::ServerBidiReactor<v1::SamplerRunRequest, v1::SamplerRunResponse>* SamplerService::Run(
    grpc::CallbackServerContext* context) {
  return ServeRunStream<SamplerSession, v1::SamplerRunRequest, v1::SamplerRunResponse>(
      *context, [this, orchestrator = OrchestratorOf(*context)](const v1::SamplerOpen& open,
                                                                SamplerSession::Stream& stream) {
        return Open(orchestrator, open, stream);
      });
}

absl::StatusOr<std::shared_ptr<SamplerSession>> SamplerService::Open(
    const std::string& orchestrator, const v1::SamplerOpen& open, SamplerSession::Stream& stream) {
  const absl::StatusOr<WiringIdentity> wiring = WiringToOpen(open, model_.fingerprint);
  if (!wiring.ok()) return wiring.status();
  auto session =
      std::make_shared<SamplerSession>(open, *wiring, stream.shared_from_this(), *sampler_,
                                       *backend_, constraints_, receiver_, publisher_, [this] {
                                         ++num_steps_;
                                         worker_.NoteStep();
                                       });
  const absl::Status status = worker_.Switch(orchestrator, open.epoch(), session);
  if (!status.ok()) return status;
  Log(LogLevel::kInfo, "sampler", "epoch-opened", {{"epoch", open.epoch()}});
  return session;
}

grpc::ServerUnaryReactor* SamplerService::PrepareConstraint(
    grpc::CallbackServerContext* context, const v1::PrepareConstraintRequest* request,
    v1::PrepareConstraintResponse* response) {
  if (request->has_vocabulary()) constraints_.SetVocabulary(request->vocabulary());
  if (constraints_.has_vocabulary()) {
    return new ConstraintCall(constraints_, *context, *request);  // deletes itself
  }
  response->set_needs_vocabulary(true);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* SamplerService::GetInfo(grpc::CallbackServerContext* context,
                                                  const v1::GetSamplerInfoRequest*,
                                                  v1::GetSamplerInfoResponse* response) {
  response->set_model_name(model_.name);
  response->set_model_fingerprint(model_.fingerprint);
  response->set_weights_digest(model_.weights_digest);
  response->set_vocabulary_size(static_cast<int32_t>(sampler_->vocab_size()));
  response->set_hidden_size(static_cast<int32_t>(sampler_->hidden_size()));
  response->set_epoch(worker_.epoch());
  response->set_num_steps(num_steps_);
  response->set_weight_bytes(sampler_->weight_bytes());
  response->set_arithmetic(sampler_->arithmetic());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace sluice
