#include "services/sampler/sampler_stage.h"

#include <algorithm>
#include <utility>

#include "services/common/status.h"
#include "services/sampler/sampler_session.h"
#include "services/sampler/work_owner_message.h"
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

SamplerStage::SamplerStage(Sampler* sampler, AdapterLibrary* adapters, Backend* backend,
                           ProgressWatch* progress)
    : sampler_(*sampler),
      adapters_(*adapters),
      backend_(*backend),
      constraints_(sampler->vocab_size(), OptionsOf(progress)) {}

absl::StatusOr<std::shared_ptr<StageSession>> SamplerStage::MakeSession(
    const StageOpening& opening) {
  return std::make_shared<SamplerSession>(opening, sampler_, adapters_, backend_, constraints_,
                                          publisher_);
}

void SamplerStage::Describe(v1::GetStageInfoResponse& info) const {
  info.set_weight_bytes(sampler_.weight_bytes());
  info.set_arithmetic(sampler_.arithmetic());
  v1::SamplerInfo& sampler = *info.mutable_sampler();
  sampler.set_vocabulary_size(static_cast<int32_t>(sampler_.vocab_size()));
  sampler.set_hidden_size(static_cast<int32_t>(sampler_.hidden_size()));
}

grpc::ServerUnaryReactor* SamplerStage::PrepareConstraint(
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

}  // namespace sluice
