// Steps as recordings: what is enqueued under a key runs as it is called the first time, when
// scratch memory grows; is recorded the second time; and from then on enqueued as a whole. What a
// device refuses to record runs as it is called each time. Driven by the backend's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

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

enum class RecordSteps {
  kWhereItCan,
  // As NCCL wants it of a group: ranks record the same steps at the same time, or none. A step that
  // is refused fails.
  kLikeOtherRanks,
  kNever,
};

class StepRecorder {
 public:
  // `on_refused` is told the reason the first time that something can't be recorded; null: nobody.
  explicit StepRecorder(Gpu& gpu, std::function<void(absl::Status)> on_refused = {})
      : gpu_(gpu), on_refused_(std::move(on_refused)) {}

  // The failure of what `enqueue` called, or with RecordSteps::kLikeOtherRanks that of recording it.
  absl::Status Run(const RecordingKey& key, absl::FunctionRef<absl::Status()> enqueue);

  // From now on; what was recorded is void. REQUIRES: nothing is being recorded.
  void Begin(RecordSteps record);
  // Memory that recordings name is elsewhere now, or they are void for another reason.
  // REQUIRES: nothing is being recorded.
  void Forget();
  // The step that is being run is never recorded: it waits for something on the host.
  void LeaveUnrecorded() { leave_unrecorded_ = true; }
  bool is_recording() const { return is_recording_; }
  // Whether something could not be recorded since the process began.
  bool has_refused() const { return has_refused_; }

 private:
  struct Step {
    std::unique_ptr<Recording> recording;
    bool is_never_recorded = false;
    uint64_t last_used = 0;
  };

  // Keys name memory of callers, which comes and goes.
  static constexpr size_t kMostSteps = 128;

  Step& Find(const RecordingKey& key, bool& is_new);
  absl::Status RunAsCalled(const RecordingKey& key, bool is_new,
                           absl::FunctionRef<absl::Status()> enqueue);
  void NoteRefused(const absl::Status& reason);

  Gpu& gpu_;
  const std::function<void(absl::Status)> on_refused_;
  std::map<RecordingKey, Step> steps_;
  uint64_t clock_ = 0;
  RecordSteps record_ = RecordSteps::kWhereItCan;
  bool is_recording_ = false;
  bool leave_unrecorded_ = false;
  bool has_refused_ = false;
};

}  // namespace sluice::cuda
