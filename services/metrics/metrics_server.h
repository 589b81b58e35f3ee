// GET /metrics, as Prometheus scrapes it, on one thread that waits for no client: one that sends or
// reads slowly is dropped after a few seconds, or as soon as another needs its place. Thread-safe.
#pragma once

#include <prometheus/collectable.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

class MetricsServer {
 public:
  // Serves, in plaintext, what all `sources` collect. `address` is HOST:PORT, an IPv6 address in
  // brackets; port 0: any free one. UNAVAILABLE where it can't be bound, INVALID_ARGUMENT where it
  // is none.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> sources);
  ~MetricsServer();

  int port() const;

 private:
  class Loop;
  explicit MetricsServer(std::unique_ptr<Loop> loop);

  std::unique_ptr<Loop> loop_;
};

}  // namespace sluice
