// InspectService over gRPC: admits the caller, makes token ids of a text, and has the call computed
// beside serving. Thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <string>

#include "orchestrator/api/admission.h"
#include "orchestrator/api/client_errors.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/inspect/inspector_runner.h"
#include "orchestrator/tenants/tenant_book.h"
#include "orchestrator/text/tokenizer_client.h"
#include "orchestrator/text/tokenizer_watch.h"
#include "services/listener/connection_guard.h"
#include "services/security/authenticator.h"
#include "sluice/v1/inspect.grpc.pb.h"

namespace sluice {

class UnaryCall;

class InspectService final : public v1::InspectService::Service {
 public:
  // All borrowed; `authenticator` and `guard` may be null, as GenerationService's, and `runner` where
  // nothing computes such calls.
  struct Parts {
    Engine& engine;
    TokenizerClient& tokenizer;
    TokenizerWatch& watch;
    const TenantBook& tenants;
    const Authenticator* authenticator = nullptr;
    ConnectionGuard* guard = nullptr;
    InspectorRunner* runner = nullptr;
  };
  InspectService(ModelDescription model, const Parts& parts, ClientErrors errors);

 private:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;
  Reactor* Inspect(grpc::CallbackServerContext* context);
  void Start(v1::InspectRequest request, const RequestContext& context, UnaryCall* call);

  const ModelDescription model_;
  const Parts parts_;
  const ClientErrors errors_;
  const Admission admission_;
  const PromptResolver prompts_;
};

}  // namespace sluice
