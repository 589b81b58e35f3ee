// Connections from the orchestrator to the processes of a replica: gRPC, or a simulated network.
// Runs on one event loop, which makes all callbacks; none is made from within a call.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/security/role.h"
#include "services/streams/message_stream.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

class StageNetwork {
 public:
  using Stream = MessageStream<v1::StageRunRequest, v1::StageRunResponse>;

  // Called once, or never after the loop has stopped.
  using InfoCallback = std::function<void(absl::StatusOr<v1::GetStageInfoResponse> info)>;

  virtual ~StageNetwork() = default;

  // GetStageInfo of the process at `address`, a stage of this kind, which is given up after
  // `timeout`.
  virtual void Ask(Role role, const std::string& address, absl::Duration timeout,
                   InfoCallback callback) = 0;

  // The process at `address` can't be used, and why; "": it can. It is told when it is asked next.
  virtual void Refuse(const std::string& address, const std::string& reason) = 0;

  // A Run stream to the process at `address`. The error of an address that can't be dialled; a
  // process that is not there ends the stream.
  virtual absl::StatusOr<std::unique_ptr<Stream>> Run(Role role, const std::string& address,
                                                      Stream::Handler handler) = 0;
};

}  // namespace sluice
