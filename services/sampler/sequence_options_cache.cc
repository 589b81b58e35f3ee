#include "services/sampler/sequence_options_cache.h"

#include "kernels/sampling_options/sampling_check.h"
#include "services/messages/sampling_message.h"

namespace sluice {

void SequenceOptionsCache::Drop(const v1::SamplerExecute& plan) {
  for (const uint64_t sequence : plan.ended_sequence_ids()) sent_.erase(sequence);
}

std::shared_ptr<const SequenceOptionsCache::Entry> SequenceOptionsCache::Of(
    const v1::SamplerRow& row) {
  if (row.has_sample()) {
    return sent_[row.sequence_id()] = std::make_shared<const Entry>(Read(row.sample()));
  }
  const auto found = sent_.find(row.sequence_id());
  return found == sent_.end() ? nullptr : found->second;
}

SequenceOptionsCache::Entry SequenceOptionsCache::Read(const v1::SamplingOptions& message) const {
  Entry entry = {.options = Merged({}, message), .refusal = absl::OkStatus()};
  entry.refusal = CheckSamplingOptions(entry.options, vocabulary_size_);
  if (HasSequenceParameters(entry.options)) {
    entry.refusal.Update(absl::InvalidArgumentError(
        "options that look at more than a row need a sequence that has been told"));
  }
  return entry;
}

}  // namespace sluice
