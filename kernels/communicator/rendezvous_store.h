// Where ranks on several hosts leave their addresses for each other before they are connected: a
// write-once map from names to bytes, kept by whoever assembles the ranks (the orchestrator, over
// whatever it already speaks with them). Implementations are thread-safe and outlive the Join calls
// that use them; a communicator does not touch its store after Join.
#pragma once

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/deadline.h"

namespace sluice {

class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;

  // ALREADY_EXISTS where the key is set: two ranks claim one place, or a name was used twice.
  virtual absl::Status Set(const std::string& key, std::string bytes) = 0;

  // Waits until the key is set. DEADLINE_EXCEEDED, naming the key, where it is not by `deadline`;
  // UNAVAILABLE where the store cannot be reached; CANCELLED when told to stop.
  virtual absl::StatusOr<std::string> Get(const std::string& key, Deadline deadline,
                                          const std::stop_token& stop) = 0;
};

}  // namespace sluice
