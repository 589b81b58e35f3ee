// Owner of work in protobuf messages.
#pragma once

#include "services/work/work_owner.h"
#include "sluice/v1/sampler.pb.h"

namespace sluice {

inline WorkOwner OwnerOf(const v1::WorkOwner& message) {
  WorkOwner owner = {.tenant = message.tenant()};
  if (message.weight() > 0) owner.weight = message.weight();
  return owner;
}

}  // namespace sluice
