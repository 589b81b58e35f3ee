#include "services/sampler/sequence_table.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/sampling_options/sampling_check.h"
#include "services/common/status.h"
#include "services/messages/sampling_message.h"
#include "services/sampler/work_owner_message.h"

namespace sluice {
namespace {

absl::Status CheckTokens(absl::Span<const int32_t> tokens, int64_t vocabulary_size) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocabulary_size) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a token is ", token, "; accepted: 0 to ", vocabulary_size - 1));
  }
  return absl::OkStatus();
}

}  // namespace

void SequenceTable::Update(const v1::SamplerExecute& plan) {
  for (const uint64_t id : plan.ended_sequence_ids()) sequences_.erase(id);
  for (const v1::SamplerSequence& told : plan.sequences()) {
    sequences_.erase(told.sequence_id());
    sequences_.emplace(told.sequence_id(), Make(told));
  }
}

absl::StatusOr<SamplerSequence> SequenceTable::Make(const v1::SamplerSequence& told) const {
  SamplingOptions options = Merged({}, told.sampling());
  absl::Status status = CheckSamplingOptions(options, vocabulary_size_);
  status.Update(CheckTokens(told.token_ids(), vocabulary_size_));
  status.Update(CheckTokens(told.stop_token_ids(), vocabulary_size_));
  if (!status.ok()) return Annotate(status, absl::StrCat("sequence ", told.sequence_id()));
  std::optional<ConstrainedText> text;
  if (told.has_constraint()) {
    text.emplace(*constraints_, told.constraint(), OwnerOf(told.owner()));
  }
  SamplerSequence sequence(std::move(options),
                           {told.stop_token_ids().begin(), told.stop_token_ids().end()},
                           told.num_prompt_tokens(), vocabulary_size_, std::move(text));
  for (const int32_t token : told.token_ids()) sequence.Append(token);
  return sequence;
}

absl::StatusOr<SamplerSequence*> SequenceTable::Assume(uint64_t id, int32_t position,
                                                       int32_t draft) {
  if (absl::Status status = CheckTokens({draft}, vocabulary_size_); !status.ok()) return status;
  const auto found = sequences_.find(id);
  if (found == sequences_.end() || !found->second.ok() ||
      found->second->past().size() != int64_t{position} - 1) {
    return absl::InternalError(absl::StrCat("a draft before position ", position, " of sequence ",
                                            id, " does not follow what is known of it here"));
  }
  found->second->Append(draft);
  return &*found->second;
}

absl::StatusOr<SamplerSequence*> SequenceTable::Find(uint64_t id, int32_t position) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) {
    return absl::InternalError(absl::StrCat("sequence ", id, " is not known here"));
  }
  if (!found->second.ok()) return found->second.status();
  SamplerSequence& sequence = *found->second;
  const std::optional<int32_t> without_token = sequence.without_token();
  if (without_token.has_value() && position > *without_token) {
    return absl::UnavailableError(
        absl::StrCat("sequence ", id, " has no token at position ", *without_token, " yet"));
  }
  if (position < 0 || sequence.past().size() < position) {
    return absl::InternalError(absl::StrCat("sequence ", id, " is known up to position ",
                                            sequence.past().size(), ", not ", position));
  }
  sequence.set_without_token(std::nullopt);
  sequence.Truncate(position);
  return &sequence;
}

}  // namespace sluice
