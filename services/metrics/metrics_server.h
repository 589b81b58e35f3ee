// GET /metrics, as Prometheus scrapes it. Thread-safe.
#pragma once

#include <prometheus/collectable.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace prometheus {
class Exposer;
}  // namespace prometheus

namespace sluice {

class MetricsServer {
 public:
  // Serves, in plaintext, what all `sources` collect. `address` is HOST:PORT; port 0: any free one.
  // UNAVAILABLE where it can't be bound.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> sources);
  ~MetricsServer();

  int port() const;

 private:
  MetricsServer();

  std::vector<std::shared_ptr<prometheus::Collectable>> sources_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace sluice
