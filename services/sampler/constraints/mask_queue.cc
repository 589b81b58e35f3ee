#include "services/sampler/constraints/mask_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "services/common/status.h"

namespace sluice {
namespace {

// Of a forced text, as many are looked at: more tokens than are drafted at a time.
constexpr size_t kMostForcedBytes = 96;

// So that a mask in words of 64 bits is the same bytes as one in words of 32.
static_assert(std::endian::native == std::endian::little);

absl::StatusOr<std::vector<uint32_t>> MaskOf(Matcher& matcher) {
  const TokenVocabulary& vocabulary = matcher.constraint().vocabulary();
  std::vector<uint64_t> words(vocabulary.mask_words());
  if (absl::Status status = matcher.FillMask(absl::MakeSpan(words)); !status.ok()) return status;
  std::vector<uint32_t> mask((vocabulary.size() + 31) / 32);
  std::memcpy(mask.data(), words.data(), mask.size() * sizeof(uint32_t));
  return mask;
}

absl::Status NotKept(const absl::Status& status) {
  return Annotate(status, "the text so far does not keep the constraint");
}

void FindWhatFollows(Matcher& matcher, size_t max, MaskAnswer& answer) {
  answer.forced = matcher.ForcedTokens(max).value_or(std::vector<int32_t>());
  if (!answer.forced.empty()) return;
  const absl::StatusOr<std::string> text = matcher.ForcedText(kMostForcedBytes);
  if (!text.ok()) return;
  answer.likely = matcher.constraint().vocabulary().speller().Spell(*text);
  if (answer.likely.size() > max) answer.likely.resize(max);
}

MaskAnswer AnswerTo(const MaskQuery& query, Matcher& matcher) {
  MaskAnswer answer;
  absl::Status status = matcher.Reset(query.tokens);
  if (!status.ok()) status = NotKept(status);
  answer.masks.push_back(status.ok() ? MaskOf(matcher) : status);
  if (status.ok() && query.max_following > 0) {
    FindWhatFollows(matcher, static_cast<size_t>(query.max_following), answer);
  }
  for (const int32_t draft : query.drafts) {
    if (status.ok()) status = matcher.Accept(draft);
    answer.masks.push_back(status.ok() ? MaskOf(matcher) : NotKept(status));
  }
  return answer;
}

}  // namespace

void MaskQueue::Add(std::shared_ptr<MaskExchange> exchange) {
  {
    absl::MutexLock lock(&mutex_);
    waiting_.push_back(std::move(exchange));
    if (std::exchange(is_working_, true)) return;
  }
  // One job for all texts, because they share the states that are found.
  const absl::Status added = work_->Add(
      {.owner = owner_,
       .needs_room = false,
       .run = [self = shared_from_this()](FairWork::Slice& slice) { self->Run(slice); }});
  if (added.ok()) return;
  absl::MutexLock lock(&mutex_);  // the process ends: nobody is answered
  waiting_.clear();
  is_working_ = false;
}

std::shared_ptr<MaskExchange> MaskQueue::Next(bool wanted) {
  absl::MutexLock lock(&mutex_);
  if (!wanted) waiting_.clear();
  if (waiting_.empty()) {
    is_working_ = false;
    return nullptr;
  }
  std::shared_ptr<MaskExchange> next = std::move(waiting_.front());
  waiting_.pop_front();
  return next;
}

void MaskQueue::Run(FairWork::Slice& slice) {
  const std::function<void()> checkpoint = [&slice] { slice.Continue(); };
  while (const std::shared_ptr<MaskExchange> exchange = Next(slice.wanted())) {
    constraint_->SetCheckpoint(&checkpoint);
    Answer(*exchange, slice);
    constraint_->SetCheckpoint(nullptr);
    slice.Continue();
  }
}

void MaskQueue::Answer(MaskExchange& exchange, FairWork::Slice& slice) {
  const absl::Duration before = slice.used();
  MaskQuery query;
  uint64_t number = 0;
  {
    const std::lock_guard lock(exchange.mutex);
    if (!exchange.asked.has_value()) return;
    query = *std::exchange(exchange.asked, std::nullopt);
    number = exchange.num_asked;
  }
  if (!exchange.matcher.has_value()) exchange.matcher.emplace(constraint_);
  MaskAnswer answer = AnswerTo(query, *exchange.matcher);
  const absl::Duration work = slice.used() - before;
  const std::lock_guard lock(exchange.mutex);
  exchange.work += work;
  if (exchange.num_asked != number) return;  // another question has come meanwhile
  exchange.answer = std::move(answer);
  exchange.num_answered = number;
  exchange.answered.notify_all();
}

}  // namespace sluice
