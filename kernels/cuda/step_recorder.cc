#include "kernels/cuda/step_recorder.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace sluice::cuda {

void StepRecorder::Forget() {
  SLUICE_CHECK(!is_recording_);  // the recording names that memory already
  steps_.clear();
}

StepRecorder::Step& StepRecorder::Find(const RecordingKey& key, bool& is_new) {
  const auto known = steps_.find(key);
  is_new = known == steps_.end();
  if (!is_new) return known->second;
  if (steps_.size() >= kMostSteps) {
    steps_.erase(std::min_element(steps_.begin(), steps_.end(), [](const auto& a, const auto& b) {
      return a.second.last_used < b.second.last_used;
    }));
  }
  return steps_[key];
}

absl::Status StepRecorder::Run(const RecordingKey& key, absl::FunctionRef<absl::Status()> enqueue) {
  bool is_new = false;
  Step& step = Find(key, is_new);
  step.last_used = ++clock_;
  if (step.recording != nullptr) {
    gpu_.Enqueue(*step.recording);
    return absl::OkStatus();
  }
  if (is_new || step.is_never_recorded) {
    leave_unrecorded_ = false;
    absl::Status status = enqueue();
    // Scratch memory that grew has emptied steps_.
    const auto found = steps_.find(key);
    if (found == steps_.end()) return status;
    found->second.is_never_recorded |= leave_unrecorded_;
    // Memory may not have grown to all that the step takes: it runs so once more.
    if (!status.ok() && is_new) steps_.erase(found);
    return status;
  }
  is_recording_ = true;
  absl::Status enqueued;
  auto recording = gpu_.RecordWork([&] { return enqueued = enqueue(); });
  is_recording_ = false;
  if (!enqueued.ok()) return enqueued;
  if (!recording.ok()) {
    // The device can't record it; nothing has been done. From now on it runs as it is called: slower.
    step.is_never_recorded = true;
    return enqueue();
  }
  step.recording = *std::move(recording);
  gpu_.Enqueue(*step.recording);
  return absl::OkStatus();
}

}  // namespace sluice::cuda
