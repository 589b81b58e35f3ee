#include "orchestrator/api/inspect_service.h"

#include <memory>
#include <utility>

#include "orchestrator/api/request_check.h"
#include "orchestrator/api/unary_call.h"
#include "services/common/call_deadline.h"

namespace sluice {

InspectService::InspectService(ModelDescription model, const Parts& parts, ClientErrors errors)
    : model_(std::move(model)),
      parts_(parts),
      errors_(std::move(errors)),
      admission_(parts.authenticator, parts.guard),
      prompts_(&model_, &parts.tokenizer, &parts.watch) {
  // On the wire a unary call is a stream of one message each way.
  MarkMethodStreamed(0, nullptr);
  MarkMethodRawCallback(
      0, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
             [this](grpc::CallbackServerContext* context) { return Inspect(context); }));
}

InspectService::Reactor* InspectService::Inspect(grpc::CallbackServerContext* context) {
  auto* const call = new UnaryCall(&errors_, "Inspect");
  const absl::StatusOr<std::string> tenant = admission_.TenantOf(*context);
  if (!tenant.ok()) {
    call->Answer<v1::InspectResponse>(tenant.status());
    return call;
  }
  // The call outlives what is asked for it.
  const RequestContext of_call = {
      .deadline = DeadlineOf(*context),
      .work = {.owner = parts_.tenants.OwnerFor(*tenant), .meter = parts_.engine.MeterFor(*tenant)},
      .cancellation = std::shared_ptr<Cancellation>(std::shared_ptr<void>(), call->caller())};
  call->ReadRequest([this, call, of_call,
                     peer = context->peer()](const absl::StatusOr<grpc::ByteBuffer>& bytes) {
    if (!bytes.ok()) return call->Answer<v1::InspectResponse>(bytes.status());
    admission_.OnMessage(peer, bytes->Length());
    absl::StatusOr<v1::InspectRequest> request = ParseMessage<v1::InspectRequest>(*bytes);
    absl::Status status = request.status();
    if (status.ok()) status = CheckKnownFields(*request);
    if (status.ok() && parts_.runner == nullptr) {
      status = absl::UnimplementedError(
          "this pipeline does not look into its model: it was started with --inspect_threads 0, or "
          "without the program sluice-inspector");
    }
    if (!status.ok()) return call->Answer<v1::InspectResponse>(status);
    Start(*std::move(request), of_call, call);
  });
  return call;
}

void InspectService::Start(v1::InspectRequest request, const RequestContext& context,
                           UnaryCall* call) {
  v1::ScoreInput input;
  if (request.has_text()) input.set_text(request.text());
  if (request.has_token_ids()) *input.mutable_token_ids() = request.token_ids();
  prompts_.Resolve(
      input, context,
      [this, context, call,
       request = std::move(request)](const absl::StatusOr<ResolvedPrompt>& prompt) mutable {
        if (!prompt.ok()) return call->Answer<v1::InspectResponse>(prompt.status());
        request.mutable_token_ids()->mutable_token_ids()->Assign(prompt->tokens.begin(),
                                                                 prompt->tokens.end());
        parts_.runner->Inspect(
            std::move(request), context,
            [call](const absl::StatusOr<v1::InspectResponse>& answer) { call->Answer(answer); });
      });
}

}  // namespace sluice
