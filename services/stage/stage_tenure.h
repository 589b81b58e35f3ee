// Ownership of a stage: it belongs to the orchestrator whose stream is open. One that is lost and
// had its steps computed may come back within a moment before another takes the stage; nobody else
// has to wait.
//
// A pure state machine.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/common/steady_time.h"

namespace sluice {

class StageTenure {
 public:
  // How long a stage waits for the orchestrator whose stream has ended.
  static constexpr absl::Duration kGrace = absl::Seconds(1);

  // OK where `orchestrator` may open the stage; ALREADY_EXISTS naming the one it belongs to.
  absl::Status Check(const std::string& orchestrator, SteadyTime now) const;

  // It has opened it. Returns a number for its stream.
  uint64_t Begin(const std::string& orchestrator);
  // A step was computed.
  void Stepped() { stepped_ = true; }
  // That stream has ended; does nothing for one that was replaced.
  void End(uint64_t stream, SteadyTime now);

 private:
  std::string holder_;
  uint64_t stream_ = 0;  // the newest
  bool open_ = false;
  bool stepped_ = false;  // since it was opened
  SteadyTime ended_;
};

}  // namespace sluice
