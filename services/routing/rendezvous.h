// Rendezvous hashing: which of several replicas a prompt's beginning belongs to. Pure.
#pragma once

#include "services/common/prefix_key.h"

namespace sluice {

// The replica with the largest rank has the beginning; `replica_name` is the key of its name. Where a
// replica is lost, its own beginnings move alone.
constexpr PrefixKey RendezvousRank(PrefixKey replica_name, PrefixKey beginning) {
  return MixKeys(replica_name, beginning);
}

}  // namespace sluice
