// Addresses of the processes of a replica.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// Addresses as in services/rpc/transport.h.
struct Topology {
  std::string embedding;
  std::vector<std::vector<std::string>> shards;  // [stage][rank]; every stage has as many ranks
  std::string sampler;

  int num_stages() const { return static_cast<int>(shards.size()); }
  // Embedding and sampler included.
  int num_processes() const { return 2 + num_stages() * num_ranks(); }
  int num_ranks() const { return shards.empty() ? 0 : static_cast<int>(shards.front().size()); }
};

// Reads "host:port,host:port;host:port,host:port": ranks by comma, stages by semicolon.
// INVALID_ARGUMENT for an empty address or stages of unlike size.
absl::StatusOr<std::vector<std::vector<std::string>>> ParseShardAddresses(const std::string& text);

}  // namespace sluice
