// The request on whose behalf another process is called: deadline, tenant, cancellation. A plain
// value.
#pragma once

#include <memory>

#include "orchestrator/text/cancellation.h"
#include "services/common/steady_time.h"
#include "services/work/work_owner.h"

namespace sluice {

struct RequestContext {
  SteadyTime deadline = SteadyTime::InfiniteFuture();
  WorkFor work;
  std::shared_ptr<Cancellation> cancellation;  // null: the caller does not leave
};

}  // namespace sluice
