// A name that stands for several servers of the public API, each reached by itself.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/security/credentials.h"

namespace sluice {

// The addresses of the name in "[dns:[///]]HOST:PORT", as gRPC writes them, such as "ipv4:10.0.0.1:80",
// in ascending order; empty where it can't be resolved. Blocks while the name is asked for.
std::vector<std::string> ResolvePublic(absl::string_view address);

// A lazily connecting channel to one of these addresses, whose certificate is to be for the name.
// Errors of ClientChannelCredentials.
absl::StatusOr<std::shared_ptr<grpc::Channel>> DialResolved(const std::string& resolved,
                                                            absl::string_view name,
                                                            const ClientSecurity& security);

}  // namespace sluice
