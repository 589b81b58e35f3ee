// Common part of every call of a Client: endpoint, retries, deadline. Not installed.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "clients/cpp/client.h"
#include "sluice/v1/embed.grpc.pb.h"
#include "sluice/v1/generation.grpc.pb.h"
#include "sluice/v1/inspect.grpc.pb.h"

namespace sluice::client {

// Where a client's calls go. Thread-safe.
struct Endpoints {
  const ClientOptions options;
  std::vector<std::unique_ptr<v1::GenerationService::Stub>> stubs;
  std::vector<std::unique_ptr<v1::InspectService::Stub>> inspect_stubs;  // of the same channels
  std::vector<std::unique_ptr<v1::EmbedService::Stub>>
      embed_stubs;                 // as many, of the same channels
  std::atomic<size_t> current{0};  // grows; modulo the number of stubs
  std::vector<uint64_t> names;     // keys of the endpoints' names
  // When a call to each was lost last: milliseconds of the steady clock.
  std::unique_ptr<std::atomic<int64_t>[]> lost_at;
};

// Where the prompt of a request is most likely to be cached: by hashing of its beginning, as gateways do
// that know nothing else. Nothing where there is one endpoint, the prompt is short, or that endpoint was
// lost a moment ago.
std::optional<size_t> HomeOf(const Endpoints& endpoints, const v1::GenerateRequest& request);

// When to come back, of a status with google.rpc.RetryInfo.
std::optional<absl::Duration> RetryDelay(const grpc::Status& status);

absl::Status ToAbsl(const grpc::Status& status);

// One call, through all its attempts. For one thread, but for its cancellation.
class Call {
 public:
  // The first attempt goes to `home`, where that is set.
  Call(std::shared_ptr<Endpoints> endpoints, const CallOptions& options,
       std::optional<size_t> home = std::nullopt);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  // Begins an attempt: its context, valid until the next one. stub() is where it goes, or
  // inspect_stub().
  grpc::ClientContext* Attempt();
  v1::GenerationService::Stub& stub() const;
  v1::InspectService::Stub& inspect_stub() const;
  v1::EmbedService::Stub& embed_stub() const;

  // The attempt has brought something: what comes after is a resumption.
  void Progress();

  // The attempt has ended with this status. True: make another one, after the pause that this has
  // waited; false: that is how the call ends, as ToAbsl() of final_status() says.
  bool TryAgain(const grpc::Status& status);
  const grpc::Status& final_status() const { return status_; }

 private:
  using Clock = std::chrono::steady_clock;

  void Detach();
  // Waits, unless the call has no time for it. False then, and where it is cancelled meanwhile.
  bool Pause(absl::Duration time);
  bool Lost(const grpc::Status& status);
  bool Refused(const grpc::Status& status);

  const std::shared_ptr<Endpoints> endpoints_;
  Cancellation* const cancellation_;
  const Clock::time_point deadline_;
  std::optional<size_t> home_;
  size_t endpoint_ = 0;
  std::unique_ptr<grpc::ClientContext> context_;
  bool begun_ = false;                        // something has come
  std::optional<Clock::time_point> give_up_;  // of what is lost, since it was
  std::optional<Clock::time_point> refused_;  // since when the server was full
  absl::Duration pause_;
  grpc::Status status_;
};

}  // namespace sluice::client
