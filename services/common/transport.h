// Addresses, credentials and channels: how one process of Sluice reaches another.
//
//   unix:/path            a unix socket; always plaintext
//   127.0.0.1:9000        loopback; plaintext
//   host:9000             anywhere else: mutual TLS is required, and a missing certificate is an
//   error at start-up inproc:name           a server in this process, without a socket
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace sluice {

// Paths of PEM files. All or none.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string authority;  // whose certificates are accepted from the other side

  bool empty() const { return certificate.empty() && key.empty() && authority.empty(); }
};

// True for unix sockets, in-process names and loopback addresses.
bool IsLocalAddress(absl::string_view address);

// FAILED_PRECONDITION where `address` is not local and `tls` is empty; NOT_FOUND where a file can't
// be read.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFor(
    absl::string_view address, const TlsFiles& tls);

// Makes channels. Thread-safe. In-process servers must outlive the channels made to them.
class Dialer {
 public:
  explicit Dialer(TlsFiles tls = {}) : tls_(std::move(tls)) {}

  // Makes "inproc:<name>" reachable.
  void RegisterInProcess(absl::string_view name, grpc::Server* server);

  // A lazily connecting channel that retries with growing pauses. NOT_FOUND for an unknown
  // in-process name, INVALID_ARGUMENT for an empty address; credential errors as above.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(absl::string_view address);

 private:
  const TlsFiles tls_;
  absl::Mutex mutex_;
  std::map<std::string, grpc::Server*> in_process_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
