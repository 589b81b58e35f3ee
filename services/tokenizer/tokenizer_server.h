// The tokenizer service as a whole: loads the model's tokenizer and serves it. Thread-safe once
// started.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/rpc/running_service.h"
#include "services/rpc/transport.h"
#include "services/tokenizer/tokenizer.h"
#include "services/tokenizer/tokenizer_service.h"
#include "services/watch/progress_watch.h"

namespace sluice {

struct TokenizerServerOptions {
  std::string model;          // folder
  std::string chat_template;  // file in place of the folder's templates; empty: none
  std::string address;
  TlsFiles tls;
  // Work that takes longer, and several times what its like has taken, hangs: see ProgressWatch.
  absl::Duration hang_timeout = absl::Seconds(2);
};

class TokenizerServer final : public RunningService {
 public:
  // A folder without tokenizer.json is served as a model without a tokenizer. Errors of
  // Tokenizer::Load and Server::Start.
  static absl::StatusOr<std::unique_ptr<TokenizerServer>> Start(
      const TokenizerServerOptions& options);

  Server& server() override { return *server_; }

 private:
  TokenizerServer() = default;

  std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<ProgressWatch> progress_;
  std::unique_ptr<TokenizerService> service_;
  std::unique_ptr<Server> server_;  // last: calls use what is above
};

}  // namespace sluice
