// Ownership of a stage: it belongs to the orchestrator whose stream is open. One that is lost and
// had its steps computed may come back within a moment before another takes the stage; nobody else
// has to wait.
//
// A tenure lasts until another orchestrator opens the stage, however often its own one does. Its
// number tells an orchestrator that comes back whether anybody else may have written keys and values
// meanwhile. Epochs do not tell: two orchestrators that do not hear each other count alike.
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

  // `number` is of the time before the stage is first opened. The process draws it, so that the
  // numbers of one that was started again differ.
  explicit StageTenure(uint64_t number = 0) : number_(number) {}

  // OK where `orchestrator` may open the stage; ALREADY_EXISTS naming the one it belongs to.
  absl::Status Check(const std::string& orchestrator, SteadyTime now) const;

  // It has opened it. Returns a number for its stream. The tenure goes on where `nonce` is that of
  // the Open before: another orchestrator may have the same name. An empty one begins a tenure.
  uint64_t Begin(const std::string& orchestrator, const std::string& nonce);
  // A step was computed.
  void Stepped() { stepped_ = true; }
  // That stream has ended; does nothing for one that was replaced.
  void End(uint64_t stream, SteadyTime now);

  // Of the tenure.
  uint64_t number() const { return number_; }

 private:
  uint64_t number_;
  std::string nonce_;
  std::string holder_;
  uint64_t stream_ = 0;  // the newest
  bool open_ = false;
  bool stepped_ = false;  // since it was opened
  SteadyTime ended_;
};

}  // namespace sluice
