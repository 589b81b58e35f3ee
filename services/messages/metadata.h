// Metadata of gRPC calls whose values come from outside: from an HTTP header, an environment, a
// file. gRPC 1.51 aborts the process for a value that HTTP/2 does not allow, and logs the value.
// Pure functions.
#pragma once

#include <grpcpp/client_context.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Whether gRPC takes `value` for metadata whose key does not end in "-bin": printable ASCII alone.
bool IsMetadataValue(absl::string_view value);

// Adds the metadata to the call. INVALID_ARGUMENT, and nothing is added, for a value that gRPC does
// not take, or a key: lower-case letters, digits, '-', '_' and '.'. The message names the key and
// the position, never the value. Keys that end in "-bin" take any bytes.
absl::Status AddMetadata(grpc::ClientContext& context, const std::string& key,
                         const std::string& value);

}  // namespace sluice
