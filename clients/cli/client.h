// The public API of one pipeline, wherever it runs, as plain calls that end in an absl::Status.
// Thread-safe. Every call is cancelled when the interrupt given at construction is requested.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cli/interrupt.h"
#include "clients/cpp/client.h"
#include "sluice/v1/embed.pb.h"
#include "sluice/v1/generation.pb.h"
#include "sluice/v1/inspect.pb.h"

namespace sluice {

class InProcessPipeline;

class Client {
 public:
  // `name` says in messages where the calls go; empty for the pipeline of this process. What one of
  // the channels loses goes on over another (clients/cpp).
  Client(std::string name, std::vector<std::shared_ptr<grpc::Channel>> channels,
         Interrupt& interrupt, client::ClientOptions options = {});
  // Calls a pipeline in this process and owns it.
  Client(std::unique_ptr<InProcessPipeline> pipeline, Interrupt& interrupt);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // From now on, `say` is told what calls wait for that have had no answer for two seconds, where
  // the pipeline is not ready; from another thread.
  void SayWhatCallsWaitFor(std::function<void(const std::string&)> say);

  // One channel for each address that the server's names stand for.
  using DialEach = std::function<std::vector<std::shared_ptr<grpc::Channel>>()>;

  // Waits until the server can be called; where every address refuses connections, `say` is called
  // at once. UNAVAILABLE "cannot reach <name>: <reason>" after `timeout`: of several addresses'
  // reasons the most telling one, which a refused connection is not. `dial_each` is called at most
  // once, where no connection was made at first.
  absl::Status WaitUntilReachable(absl::Duration timeout, const DialEach& dial_each,
                                  const std::function<void(const std::string&)>& say);

  // Hands every event to `on_event` as it comes; one that is lost goes on. Without `timeout` for as
  // long as it takes.
  // INTERNAL where the stream ends without its last event; else the server's status.
  absl::Status Generate(const v1::GenerateRequest& request, absl::Duration timeout,
                        const std::function<void(const v1::GenerateResponse&)>& on_event);
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request, absl::Duration timeout);
  absl::StatusOr<v1::InspectResponse> Inspect(const v1::InspectRequest& request,
                                              absl::Duration timeout);
  absl::StatusOr<v1::EmbedResponse> Embed(const v1::EmbedRequest& request, absl::Duration timeout);
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                absl::Duration timeout);
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                    absl::Duration timeout);
  absl::StatusOr<v1::GetModelResponse> GetModel();
  // The bytes of every token by its id, fetched page by page; an id that is no token's has none.
  absl::StatusOr<std::vector<std::string>> GetTokenTexts();
  absl::StatusOr<v1::GetStatusResponse> GetStatus(const v1::GetStatusRequest& request = {});

  // Those that calls go over. They live as long as the client.
  const std::vector<std::shared_ptr<grpc::Channel>>& channels() const;

  const std::string& name() const { return name_; }
  bool interrupted() const { return interrupt_.requested(); }

 private:
  struct Impl;

  template <class Response>
  absl::StatusOr<Response> Translate(absl::StatusOr<Response> response) const;

  const std::string name_;
  const std::unique_ptr<Impl> impl_;
  Interrupt& interrupt_;
};

}  // namespace sluice
