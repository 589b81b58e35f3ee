// Serves a group of models to the gateway (model_host.proto). Thread-safe.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>

#include "clients/cli/model_group.h"
#include "services/security/authenticator.h"
#include "sluice/v1/model_host.grpc.pb.h"

namespace sluice {

class ModelHostService : public v1::ModelHostService::CallbackService {
 public:
  // Borrows both. Without an authenticator every caller is served.
  ModelHostService(ModelGroup* group, const Authenticator* authenticator)
      : group_(*group), authenticator_(authenticator) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;
  grpc::ServerWriteReactor<v1::UseModelResponse>* UseModel(
      grpc::CallbackServerContext* context, const v1::UseModelRequest* request) override;

 private:
  class Use;

  absl::Status Check(const std::string& authorization,
                     const grpc::ServerContextBase& context) const;

  ModelGroup& group_;
  const Authenticator* const authenticator_;
};

}  // namespace sluice
