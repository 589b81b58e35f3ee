#include "kernels/cuda/step_recorder.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace sluice::cuda {

void StepRecorder::Begin(RecordSteps record) {
  Forget();
  record_ = record;
}

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

absl::Status StepRecorder::RunAsCalled(const RecordingKey& key, bool is_new,
                                       absl::FunctionRef<absl::Status()> enqueue) {
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

void StepRecorder::NoteRefused(const absl::Status& reason) {
  if (!std::exchange(has_refused_, true) && on_refused_ != nullptr) on_refused_(reason);
}

absl::Status StepRecorder::Run(const RecordingKey& key, absl::FunctionRef<absl::Status()> enqueue) {
  if (record_ == RecordSteps::kNever) return enqueue();
  bool is_new = false;
  Step& step = Find(key, is_new);
  step.last_used = ++clock_;
  if (step.recording != nullptr) {
    gpu_.Enqueue(*step.recording);
    return absl::OkStatus();
  }
  if (is_new || step.is_never_recorded) return RunAsCalled(key, is_new, enqueue);
  is_recording_ = true;
  absl::Status enqueued;
  auto recording = gpu_.RecordWork([&] { return enqueued = enqueue(); });
  is_recording_ = false;
  if (recording.ok()) {
    step.recording = *std::move(recording);
    gpu_.Enqueue(*step.recording);
    return absl::OkStatus();
  }
  // Nothing has been done. A peer's failure, or the end of an epoch, would have come in any case.
  if (!enqueued.ok() && !absl::IsInternal(enqueued)) return enqueued;
  NoteRefused(recording.status());
  if (record_ == RecordSteps::kLikeOtherRanks) return recording.status();
  step.is_never_recorded = true;
  return RunAsCalled(key, /*is_new=*/true, enqueue);
}

}  // namespace sluice::cuda
