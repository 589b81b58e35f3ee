#include "services/tokenizer/tokenizer_server.h"

#include <utility>

#include "services/model/digest/model_digest.h"
#include "services/model/identity.h"
#include "services/process/log.h"
#include "services/tokenizer/chat_template.h"

namespace sluice {
namespace {

// Token ids travel in the tokenizer's messages, so a prompt of the longest text must fit.
constexpr int kMaxReceiveBytes = 64 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<TokenizerServer>> TokenizerServer::Start(
    const TokenizerServerOptions& options) {
  const absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
      PipelineServerCredentials(options.address, options.tls, Role::kTokenizer);
  if (!credentials.ok()) return credentials.status();
  const absl::StatusOr<ModelIdentity> identity = IdentifyModel(options.model);
  if (!identity.ok()) return identity.status();
  auto result = std::unique_ptr<TokenizerServer>(new TokenizerServer());
  if (const absl::Status usable = CheckChatTemplate(options.chat_template); !usable.ok()) {
    return usable;
  }
  absl::StatusOr<std::unique_ptr<const Tokenizer>> tokenizer =
      Tokenizer::Load(options.model, options.chat_template);
  if (tokenizer.ok()) {
    result->tokenizer_ = *std::move(tokenizer);
  } else if (!absl::IsNotFound(tokenizer.status())) {
    return tokenizer.status();
  } else {
    Log(LogLevel::kWarning, "tokenizer", "no-tokenizer",
        {{"model", options.model}, {"effect", "serving token ids only"}});
  }
  const absl::StatusOr<std::string> digest = TokenizerDigest(options.model);
  if (!digest.ok()) return digest.status();
  result->progress_ = WatchProgress("tokenizer", options.hang_timeout);
  result->service_ =
      std::make_unique<TokenizerService>(TokenizerService::Model{identity->name, *digest},
                                         result->tokenizer_.get(), result->progress_.get());
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start({.address = options.address,
                     .credentials = *credentials,
                     .services = {result->service_.get()},
                     .names = {v1::TokenizerService::service_full_name()},
                     .max_receive_bytes = kMaxReceiveBytes,
                     .progress = result->progress_.get()});
  if (!server.ok()) return server.status();
  result->server_ = *std::move(server);
  result->server_->SetServing(true);
  return result;
}

}  // namespace sluice
