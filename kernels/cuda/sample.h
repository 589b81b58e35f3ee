// A token chosen from every row of logits, as kernels/sampling.h defines, with the draws and the
// weights of the CPU's: the same exponential function in double, without fused operations. Many
// blocks look through a row once, then one goes on with what they say of it, which for the most
// probable token is all. Where the weights of all tokens count, a launch in between has many blocks
// compute them.
#pragma once

#include <cstdint>

#include "kernels/cuda/row_stretches.h"
#include "kernels/cuda/stream.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

// What SampleRow and its SamplingOptions say that counts here.
struct SampleRequest {
  double token_uniform = 0;
  double xtc_uniform = 0;
  float repetition_penalty = 1;
  float temperature = 1;
  float dynatemp_range = 0;
  float dynatemp_exponent = 1;
  float top_p = 1;
  float min_p = 0;
  float typical_p = 1;
  float top_n_sigma = 0;
  float xtc_probability = 0;
  float xtc_threshold = 0;
  int32_t top_k = 0;
  int32_t num_top = 0;
  int64_t allowed_begin = -1;  // first word of its mask, or -1: all are allowed
  int64_t edit_begin = 0;      // its edits [edit_begin, edit_begin + num_edits)
  int64_t top_begin = 0;       // where its most probable tokens go
  int32_t num_edits = 0;
  int32_t wants_logprob = 0;
};

struct SampleEdit {
  int32_t id = 0;
  float bias = 0;
  float penalty = 0;
  int32_t repeated = 0;
};

struct SampleToken {
  double probability = 0;
  float logit = 0;
  int32_t id = 0;
};

struct SampleResult {
  SampleToken token;
  int32_t error = 0;    // a SampleError
  int32_t num_top = 0;  // entries of `top`, by ascending id; the host sorts them
  float logprob = 0;
};

// What a stretch of a row says of it: enough where the most probable token is asked for.
struct SampleStretch {
  ExponentialSum exponentials;  // of the logits as they came
  float largest = 0;            // of the edited ones
  int32_t first_largest = 0;    // the lowest id that has it
  int32_t first_bad = 0;        // the lowest id whose logit is not finite, or V
  int32_t num_weighed = 0;      // ids that may be drawn, where WeighsAllTokens()
};

// Whether a row's choice begins with the weights of all of its V tokens.
constexpr bool WeighsAllTokens(const SampleRequest& request, int64_t vocabulary) {
  const bool is_limited = request.top_k > 0 && request.top_k < vocabulary;
  return request.temperature > 0 && request.dynatemp_range == 0 && !is_limited &&
         (request.top_p < 1 || !(request.min_p > 0));
}

// Scratch of one row of V logits, 8-byte aligned: the edited logits, and the tokens that may still
// be drawn: their weights, logits and ids.
constexpr int64_t SampleScratchBytes(int64_t vocabulary) {
  return (vocabulary * (4 + 8 + 4 + 4) + 15) / 16 * 16;
}

struct SampleTask {
  MatrixView logits;  // [T, V] F32
  const SampleRequest* requests = nullptr;
  const uint32_t* allowed = nullptr;
  const SampleEdit* edits = nullptr;
  SampleResult* results = nullptr;
  SampleToken* top = nullptr;
  SampleStretch* stretches = nullptr;  // [T, NumStretches(V)]
  char* scratch = nullptr;             // [T, SampleScratchBytes(V)]
  bool weighs_all = false;             // whether WeighsAllTokens() of any row
};

using LaunchSample = void (*)(Stream, const SampleTask&);

}  // namespace sluice::cuda
