#include "services/sampler/sequence_past.h"

#include "kernels/check.h"

namespace sluice {

void SequencePast::Append(int32_t token) {
  Count& count = counts_[token];
  ++count.all;
  if (size() >= num_prompt_) ++count.generated;
  tokens_.push_back(token);
}

void SequencePast::Truncate(int32_t size) {
  SLUICE_CHECK(size >= 0 && size <= this->size());
  while (this->size() > size) {
    const auto count = counts_.find(tokens_.back());
    tokens_.pop_back();
    if (this->size() >= num_prompt_) --count->second.generated;
    if (--count->second.all == 0) counts_.erase(count);
  }
}

}  // namespace sluice
