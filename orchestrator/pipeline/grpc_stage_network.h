// StageNetwork over gRPC. Callbacks are posted to the loop.
#pragma once

#include <map>
#include <string>

#include "orchestrator/pipeline/stage_network.h"
#include "services/common/event_loop.h"
#include "services/rpc/transport.h"

namespace sluice {

class GrpcStageNetwork final : public StageNetwork {
 public:
  // Borrows the dialer. `orchestrator` is the name by which stages know whose they are.
  GrpcStageNetwork(Dialer* dialer, Post post, std::string orchestrator = "");

  void Ask(Role role, const std::string& address, absl::Duration timeout,
           InfoCallback callback) override;
  void Refuse(const std::string& address, const std::string& reason) override;
  absl::StatusOr<std::unique_ptr<Stream>> Run(Role role, const std::string& address,
                                              Stream::Handler handler) override;

 private:
  Dialer* const dialer_;
  const Post post_;
  const std::string orchestrator_;
  std::map<std::string, std::string> refusals_;  // by address
};

}  // namespace sluice
