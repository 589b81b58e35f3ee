// The addresses that processes of Sluice are given.
//
//   unix:/path            a unix socket
//   inproc:name           a server in this process, without a socket
//   HOST:PORT             HOST is a name, an IPv4 address, or an IPv6 address in brackets
//   dns:HOST:PORT, dns:///HOST:PORT   the same, as gRPC's resolvers write it
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// INVALID_ARGUMENT saying how it is written where `address` is none of the above.
absl::Status CheckAddress(absl::string_view address);

// The same of one to listen on, whose socket also needs a folder that is there and a path of at most
// 107 bytes.
absl::Status CheckListenAddress(absl::string_view address);

}  // namespace sluice
