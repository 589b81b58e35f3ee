// A service that is up, as the code around it sees it.
#pragma once

#include "services/common/server.h"

namespace sluice {

class RunningService {
 public:
  virtual ~RunningService() = default;
  virtual Server& server() = 0;
};

}  // namespace sluice
