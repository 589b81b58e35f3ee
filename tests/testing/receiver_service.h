// A stage that does nothing but receive rows.
#pragma once

#include "services/stage/activations.h"
#include "sluice/v1/stage.grpc.pb.h"

namespace sluice::testing {

class ReceiverService final : public v1::StageService::CallbackService {
 public:
  explicit ReceiverService(ActivationsReceiver& receiver) : receiver_(receiver) {}
  grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* Push(
      grpc::CallbackServerContext* context) override {
    return receiver_.Serve(context);
  }

 private:
  ActivationsReceiver& receiver_;
};

}  // namespace sluice::testing
