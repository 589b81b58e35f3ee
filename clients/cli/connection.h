// The pipeline that a command talks to: over a socket (--endpoint), or started in this process
// (--model).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cli/client.h"
#include "clients/cli/environment.h"
#include "clients/cli/model_flags.h"
#include "services/options/flags.h"
#include "services/security/credentials.h"

namespace sluice {

// Where `sluice up` listens unless told otherwise.
inline constexpr char kDefaultEndpoint[] = "127.0.0.1:8700";

struct EndpointFlags {
  std::optional<std::string> endpoint;  // one, or several by comma
  absl::Duration connect_timeout = absl::Seconds(5);
  std::string tls_cert, tls_key, tls_ca;  // paths of PEM files
  bool tls = false;
  bool insecure = false;
  std::string token_file;
  std::string api_key;

  // Those asked for, else kDefaultEndpoint.
  std::vector<std::string> addresses() const;
  ClientSecurity security() const;
};

// --endpoint, --connect_timeout, --tls_cert, --tls_key, --tls_ca, --tls, --insecure, --token_file,
// --api_key.
// `default_text` says in the help what happens without --endpoint.
void AddEndpointFlags(FlagSet& flags, const std::string& default_text, EndpointFlags* into);

// The same but for --endpoint.
void AddSecurityFlags(FlagSet& flags, EndpointFlags* into);

// `endpoint` with the address of SLUICE_ENDPOINT where it has none of its own.
EndpointFlags WithEnvironment(EndpointFlags endpoint, const Environment& environment);

// Reaches the endpoint asked for, else that of SLUICE_ENDPOINT, else kDefaultEndpoint. UNAVAILABLE
// "cannot reach ..." where it does not come up in time; errors of DialPublic, INVALID_ARGUMENT for a
// SLUICE_ENDPOINT that is no address, NOT_FOUND for a file of the token that can't be read.
absl::StatusOr<std::unique_ptr<Client>> ConnectToEndpoint(const EndpointFlags& endpoint,
                                                          Environment& environment);

// The API key that calls to an endpoint show; empty: none. Errors as above.
absl::StatusOr<std::string> TokenOf(const EndpointFlags& endpoint, const Environment& environment);

// Starts the pipeline of this process; errors of loading.
absl::StatusOr<std::unique_ptr<Client>> StartPipeline(const ModelFlags& model,
                                                      Environment& environment);

// "the KV pool holds 16384 positions; the context of storyteller is 512", and what to do where it
// holds fewer than that; empty where the server says nothing of a pool.
absl::StatusOr<std::string> PoolText(Client& client);

// INVALID_ARGUMENT where an endpoint and a model were both given.
absl::Status CheckOneTarget(const EndpointFlags& endpoint, const ModelFlags& model);

// Whether a command that can start a pipeline calls another: --endpoint was given, or no model and
// SLUICE_ENDPOINT is set.
bool CallsEndpoint(const EndpointFlags& endpoint, const ModelFlags& model,
                   const Environment& environment);

// The endpoint where it calls one, else a pipeline of this process.
absl::StatusOr<std::unique_ptr<Client>> ConnectOrStart(const EndpointFlags& endpoint,
                                                       const ModelFlags& model,
                                                       Environment& environment);

}  // namespace sluice
