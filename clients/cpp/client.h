// The public API of Sluice for C++: plain calls that end in an absl::Status, over one orchestrator
// or several that serve the same model.
//
//   auto client = sluice::client::Client::Connect("127.0.0.1:8700");
//   sluice::v1::GenerateRequest request;
//   request.set_text("Once upon a time");
//   sluice::client::Generation story = (*client)->Generate(request);
//   while (auto event = story.Next()) std::cout << event->chunk().text();
//   if (!story.status().ok()) std::cerr << story.status() << "\n";
//
// Of several endpoints a call that generates goes to the one where hashing of the first 256 bytes of
// its prompt puts it, so that prompts that begin alike find each other's keys and values; shorter
// ones, and other calls, go to the first that was not lost.
//
// A call whose orchestrator is lost is made again, there or at the next endpoint; a stream goes on
// after the tokens that have come, with the same bits as if nothing had happened: nothing is
// repeated, nothing is lost. A call that is refused because the server is full is made again when
// the server says (google.rpc.RetryInfo).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sluice/v1/embed.pb.h"
#include "sluice/v1/generation.pb.h"
#include "sluice/v1/inspect.pb.h"

namespace grpc {
class Channel;             // grpcpp/channel.h
class ChannelCredentials;  // grpcpp/security/credentials.h
class ClientContext;
}  // namespace grpc

namespace sluice::client {

struct ClientOptions {
  // Null: plaintext.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // Shown with every call as a bearer token; none where empty.
  std::string token;
  // How long a call that has no answer yet looks for an endpoint that takes it.
  absl::Duration connect_timeout = absl::Seconds(5);
  // How long a stream that has begun does, whose orchestrator was lost.
  absl::Duration resume_timeout = absl::Seconds(60);
  // How long a call is made again that is refused with a time at which to come back.
  absl::Duration refused_timeout = absl::Seconds(30);
};

// Ends calls from another thread: those given it, now and later. Thread-safe; outlives its calls.
class Cancellation {
 public:
  void Cancel();
  bool cancelled() const;

 private:
  friend class Call;
  mutable std::mutex mutex_;  // guards all
  std::condition_variable changed_;
  bool cancelled_ = false;
  std::vector<grpc::ClientContext*> contexts_;  // of the calls under way
};

struct CallOptions {
  // Of the call as a whole, however often it is made; the status is DEADLINE_EXCEEDED then.
  absl::Duration timeout = absl::InfiniteDuration();
  // Borrowed; null: never cancelled. On cancellation the status is CANCELLED.
  Cancellation* cancellation = nullptr;
};

class Call;
struct Endpoints;

// One stream of Generate. For one thread. May outlive its client.
class Generation {
 public:
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;
  // Cancels what has not ended.
  ~Generation();

  // Waits for the next event; nothing once the stream has ended, which status() explains.
  std::optional<v1::GenerateResponse> Next();

  // OK once Next() has returned the last event, `finished`; the server's status otherwise, or
  // INTERNAL where the stream ended without its last event.
  const absl::Status& status() const;

  // How often the stream went on after a loss.
  int num_resumptions() const;

 private:
  friend class Client;
  struct Stream;
  explicit Generation(std::unique_ptr<Stream> stream);

  std::unique_ptr<Stream> stream_;
};

// Thread-safe.
class Client {
 public:
  // `endpoints`: HOST:PORT or unix:/PATH, several by comma. Does not wait
  // for a connection. INVALID_ARGUMENT where there is none.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoints,
                                                         ClientOptions options = {});
  // Over channels made elsewhere; at least one.
  explicit Client(std::vector<std::shared_ptr<grpc::Channel>> channels, ClientOptions options = {});
  ~Client();

  Generation Generate(v1::GenerateRequest request, CallOptions call = {});

  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request, CallOptions call = {});
  absl::StatusOr<v1::InspectResponse> Inspect(const v1::InspectRequest& request,
                                              CallOptions call = {});
  // The embeddings of texts, or a classifier's scores (protos/sluice/v1/embed.proto).
  absl::StatusOr<v1::EmbedResponse> Embed(const v1::EmbedRequest& request, CallOptions call = {});
  // How well documents answer a query.
  absl::StatusOr<v1::RerankResponse> Rerank(const v1::RerankRequest& request,
                                            CallOptions call = {});
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                CallOptions call = {});
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                    CallOptions call = {});
  absl::StatusOr<v1::ApplyChatTemplateResponse> ApplyChatTemplate(
      const v1::ApplyChatTemplateRequest& request, CallOptions call = {});
  absl::StatusOr<v1::GetVocabularyResponse> GetVocabulary(const v1::GetVocabularyRequest& request,
                                                          CallOptions call = {});
  absl::StatusOr<v1::GetModelResponse> GetModel(CallOptions call = {});
  absl::StatusOr<v1::GetStatusResponse> GetStatus(const v1::GetStatusRequest& request = {},
                                                  CallOptions call = {});

 private:
  template <class Request, class Response, class Method>
  absl::StatusOr<Response> Unary(Method method, const Request& request, const CallOptions& call);

  const std::shared_ptr<Endpoints> endpoints_;
};

}  // namespace sluice::client
