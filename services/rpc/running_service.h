// Interface of a running service, for main() and `sluice run`.
#pragma once

#include <memory>
#include <vector>

#include "services/rpc/server.h"

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace sluice {

class RunningService {
 public:
  virtual ~RunningService() = default;
  virtual Server& server() = 0;
  // SIGHUP: reads again what can change while it runs. False: nothing can, and the process ends as
  // it does when its terminal goes away.
  virtual bool Reload() { return false; }
  // What it has to say besides what every process does, on --metrics_port.
  virtual std::vector<std::shared_ptr<prometheus::Collectable>> metrics() { return {}; }
};

}  // namespace sluice
