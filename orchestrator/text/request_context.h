// For which request other processes are asked: until when, on whose account, and whether it is still
// wanted. A plain value.
#pragma once

#include <memory>

#include "orchestrator/text/cancellation.h"
#include "services/common/steady_time.h"
#include "services/common/work_owner.h"

namespace sluice {

struct RequestContext {
  SteadyTime deadline = SteadyTime::InfiniteFuture();
  WorkFor work;
  std::shared_ptr<Cancellation> cancellation;  // null: the caller does not leave
};

}  // namespace sluice
