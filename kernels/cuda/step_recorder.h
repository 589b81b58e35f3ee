// Steps as recordings: what is enqueued under a key runs as it is called the first time, when
// scratch memory grows; is recorded the second time; and from then on enqueued as a whole. What a
// device refuses to record runs as it is called each time. Driven by the backend's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/cuda/gpu.h"

namespace sluice::cuda {

// What a recording depends on.
struct RecordingKey {
  StepKey step;
  uint64_t parts = 0;  // StepTables::parts()

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the default for a literal 0
  auto operator<=>(const RecordingKey&) const = default;
};

class StepRecorder {
 public:
  explicit StepRecorder(Gpu& gpu) : gpu_(gpu) {}

  absl::Status Run(const RecordingKey& key, absl::FunctionRef<absl::Status()> enqueue);

  // Memory that recordings name is elsewhere now, or they are void for another reason.
  // REQUIRES: nothing is being recorded.
  void Forget();
  // The step that is being run is never recorded: it waits for something on the host.
  void LeaveUnrecorded() { leave_unrecorded_ = true; }
  bool is_recording() const { return is_recording_; }

 private:
  struct Step {
    std::unique_ptr<Recording> recording;
    bool is_never_recorded = false;
    uint64_t last_used = 0;
  };

  // Keys name memory of callers, which comes and goes.
  static constexpr size_t kMostSteps = 128;

  Step& Find(const RecordingKey& key, bool& is_new);

  Gpu& gpu_;
  std::map<RecordingKey, Step> steps_;
  uint64_t clock_ = 0;
  bool is_recording_ = false;
  bool leave_unrecorded_ = false;
};

}  // namespace sluice::cuda
