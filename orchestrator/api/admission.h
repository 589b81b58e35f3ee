// Authentication of calls of the public API, and the tenant of each call. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/listener/connection_guard.h"
#include "services/security/authenticator.h"
#include "sluice/v1/generation_session.pb.h"

namespace sluice {

class Admission {
 public:
  // Both borrowed. Without `authenticator` callers need prove nothing, and every call is served for
  // whom it names. `guard` is told which peers have proved who they are, and which have failed to;
  // may be null.
  explicit Admission(const Authenticator* authenticator, ConnectionGuard* guard = nullptr)
      : authenticator_(authenticator), guard_(guard) {}

  // Whether callers prove who they are.
  bool asks_for_proof() const { return authenticator_ != nullptr; }

  // Whether the caller is one who may call at all: UNAUTHENTICATED.
  absl::Status Check(const grpc::ServerContextBase& context) const;

  // The tenant whom a call is served for: the one that its caller has proved to be, else whom it
  // names (caller.h). UNAUTHENTICATED, or INVALID_ARGUMENT for a name that is none.
  absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& context) const;
  // The same of a call that began as `start` over the connection of `session`: what the metadata of
  // the session itself states proves nothing.
  absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& session,
                                       const v1::StartCall& start) const;

  // A call's message has been read. Where nothing is to be proved, it is what admits a peer.
  void OnMessage(const std::string& peer, size_t bytes) const;

 private:
  // Tells the guard what has become of a call over the connection of `context`.
  absl::StatusOr<Caller> Told(absl::StatusOr<Caller> caller,
                              const grpc::ServerContextBase& context) const;

  const Authenticator* const authenticator_;
  ConnectionGuard* const guard_;
};

}  // namespace sluice
