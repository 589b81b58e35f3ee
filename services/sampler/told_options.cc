#include "services/sampler/told_options.h"

#include "kernels/sampling_options/sampling_check.h"
#include "services/common/sampling_message.h"

namespace sluice {

void ToldOptions::Drop(const v1::SamplerExecute& plan) {
  for (const uint64_t sequence : plan.ended_sequence_ids()) told_.erase(sequence);
}

std::shared_ptr<const ToldOptions::Told> ToldOptions::Of(const v1::SamplerRow& row) {
  if (row.has_sample()) {
    return told_[row.sequence_id()] = std::make_shared<const Told>(Read(row.sample()));
  }
  const auto found = told_.find(row.sequence_id());
  return found == told_.end() ? nullptr : found->second;
}

ToldOptions::Told ToldOptions::Read(const v1::SamplingOptions& message) const {
  Told told = {.options = Merged({}, message), .refusal = absl::OkStatus()};
  told.refusal = CheckSamplingOptions(told.options, vocabulary_size_);
  if (HasSequenceParameters(told.options)) {
    told.refusal.Update(absl::InvalidArgumentError(
        "options that look at more than a row need a sequence that has been told"));
  }
  return told;
}

}  // namespace sluice
