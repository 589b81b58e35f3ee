// A stretch of a row of logits, looked through before a token is chosen. After simt.h.
#pragma once

#include "kernels/cuda/kernels/row_stretch.h"
#include "kernels/cuda/sample.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// Scratch memory of a row.
struct SampleScratch {
  SIMT_DEVICE SampleScratch(const SampleTask& task, int64_t row) {
    const int64_t size = task.logits.cols;
    weights = reinterpret_cast<double*>(task.scratch + row * SampleScratchBytes(size));
    all = reinterpret_cast<float*>(weights + size);
    logits = all + size;
    ids = reinterpret_cast<int32_t*>(logits + size);
  }

  float* all;  // [V] edited; of rows that are only asked for their most probable token, if edited
  double* weights;  // [count] of the tokens that may still be drawn, by ascending id
  float* logits;
  int32_t* ids;
};

class StretchLook {
 public:
  SIMT_DEVICE StretchLook(const SampleTask& task, double* joined)
      : stretch_(StretchOfBlock(task.logits.cols)),
        task_(task),
        request_(task.requests[stretch_.row]),
        all_(SampleScratch(task, stretch_.row).all),
        joined_(joined) {}

  SIMT_DEVICE void Run() {
    StretchScores logits;
    LoadScores(stretch_, RowOf(task_.logits, stretch_.row), logits);
    SampleStretch seen;
    seen.exponentials = SumOfStretch(logits, joined_);
    seen.first_bad = First([&](int i) { return !IsFinite(logits[i]); });
    Forbid(logits);
    if (!IsGreedy() || request_.num_edits > 0) Edit(logits);
    seen.largest = LargestOf(logits, joined_);
    seen.first_largest = First([&](int i) { return logits[i] == seen.largest; });
    if (Thread() == 0) task_.stretches[Block()] = seen;
  }

 private:
  SIMT_DEVICE bool IsGreedy() const {
    return request_.temperature == 0 && request_.dynatemp_range == 0;
  }

  // The lowest column whose score is what is looked for, or V.
  template <class Is>
  SIMT_DEVICE int32_t First(Is is) {
    int64_t first = task_.logits.cols;
    SIMT_UNROLL
    for (int i = kScoresOfThread - 1; i >= 0; --i) {
      if (stretch_.Column(i) < stretch_.end && is(i)) first = stretch_.Column(i);
    }
    return static_cast<int32_t>(JoinThreads(first, Smaller(), reinterpret_cast<int64_t*>(joined_)));
  }

  SIMT_DEVICE void Forbid(StretchScores& logits) const {
    if (request_.allowed_begin < 0) return;
    const uint32_t* const allowed = task_.allowed + request_.allowed_begin;
    SIMT_UNROLL
    for (int i = 0; i < kScoresOfThread; ++i) {
      const int64_t id = stretch_.Column(i);
      if (id < stretch_.end && (allowed[id / 32] >> (id % 32) & 1) == 0) logits[i] = -INFINITY;
    }
  }

  // Leaves the edited logits in scratch memory, too.
  SIMT_DEVICE void Edit(StretchScores& logits) {
    SIMT_UNROLL
    for (int i = 0; i < kScoresOfThread; ++i) {
      const int64_t id = stretch_.Column(i);
      if (id < stretch_.end) all_[id] = logits[i];
    }
    if (request_.num_edits == 0) return;
    Barrier();
    const double repetition = request_.repetition_penalty;
    for (int64_t i = Thread(); i < request_.num_edits; i += kStretchThreads) {
      const SampleEdit edit = task_.edits[request_.edit_begin + i];
      if (edit.id < stretch_.begin || edit.id >= stretch_.end) continue;
      double logit = double{all_[edit.id]} + edit.bias;
      if (edit.repeated != 0) logit = logit > 0 ? logit / repetition : logit * repetition;
      all_[edit.id] = static_cast<float>(logit - edit.penalty);
    }
    Barrier();
    LoadScores(stretch_, all_, logits);
  }

  const Stretch stretch_;
  const SampleTask& task_;
  const SampleRequest& request_;
  float* const all_;
  double* const joined_;
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
