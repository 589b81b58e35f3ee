// Addresses and channels: how one process of Sluice reaches another.
//
//   unix:/path      a unix socket; always plaintext, its folder says who may come
//   inproc:name     a server in this process, without a socket
//   host:9000       anything else, loopback included: mutual TLS by role (services/security)
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/security/credentials.h"
#include "services/security/local_address.h"
#include "services/security/role.h"
#include "services/security/tls_files.h"

namespace sluice {

// A lazily connecting channel to the public API at `address`; a name that stands for several
// addresses has its calls go to each in turn. INVALID_ARGUMENT for an empty
// address; errors of ClientChannelCredentials.
absl::StatusOr<std::shared_ptr<grpc::Channel>> DialPublic(absl::string_view address,
                                                          const ClientSecurity& security = {});

// The same, but one channel for each address that the name in `address` resolves to, so that the
// reason why each can't be reached is seen by itself: a channel to all of them reports the last
// one's.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> DialPublicEach(
    absl::string_view address, const ClientSecurity& security = {});

// Makes channels between the processes of a pipeline. Thread-safe. In-process servers must outlive
// the channels made to them.
class Dialer {
 public:
  explicit Dialer(TlsFiles tls = {}) : tls_(std::move(tls)) {}

  // Makes "inproc:<name>" reachable.
  void RegisterInProcess(absl::string_view name, grpc::Server* server);

  // A lazily connecting channel that retries with growing pauses. NOT_FOUND for an unknown
  // in-process name, INVALID_ARGUMENT for an empty address; errors of PipelineChannelCredentials.
  // With certificates, none but a holder of the role `server` is believed.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(absl::string_view address, Role server);

 private:
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFor(
      absl::string_view address, Role server);

  const TlsFiles tls_;
  absl::Mutex mutex_;
  std::map<std::string, grpc::Server*> in_process_ ABSL_GUARDED_BY(mutex_);
  // Made once for a role of servers: every one watches the files from a thread of its own.
  std::map<Role, std::shared_ptr<grpc::ChannelCredentials>> mutual_tls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
