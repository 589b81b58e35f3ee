#include "orchestrator/constraints/constraint_preparer.h"

#include <algorithm>
#include <utility>

#include "services/common/call_deadline.h"
#include "services/common/status.h"
#include "services/work/work_metadata.h"

namespace sluice {
namespace {

// How long a call may wait where its client set no deadline.
constexpr absl::Duration kPatience = absl::Seconds(60);
// A sampler that is lost while it is asked is asked again, so many times in all: the constraint may
// be what it dies of.
constexpr int kMaxAttempts = 3;

absl::Status Stopped() { return absl::UnavailableError("the orchestrator is shutting down"); }

}  // namespace

// One constraint on its way.
struct ConstraintPreparer::Call {
  v1::PrepareConstraintRequest request;
  v1::PrepareConstraintResponse response;
  std::shared_ptr<const std::string> vocabulary;
  WorkFor work;
  SteadyTime deadline;
  Callback callback;
  int num_lost = 0;
  // Under the preparer's mutex.
  std::unique_ptr<grpc::ClientContext> context;  // of the current attempt
  bool left = false;
};

std::shared_ptr<ConstraintPreparer> ConstraintPreparer::Make(
    Model model, TokenizerClient* tokenizer, std::shared_ptr<grpc::Channel> sampler) {
  return std::shared_ptr<ConstraintPreparer>(
      new ConstraintPreparer(std::move(model), tokenizer, std::move(sampler)));
}

ConstraintPreparer::ConstraintPreparer(Model model, TokenizerClient* tokenizer,
                                       std::shared_ptr<grpc::Channel> sampler)
    : model_(std::move(model)),
      tokenizer_(tokenizer),
      sampler_(v1::ConstraintService::NewStub(std::move(sampler))) {}

void ConstraintPreparer::Prepare(const v1::Constraint& constraint, const RequestContext& context,
                                 Callback callback) {
  if (model_.end_token_ids.empty()) {
    return callback(absl::FailedPreconditionError(
        "constraint: the model has no end-of-sequence token to end a text with"));
  }
  auto call = std::make_shared<Call>();
  *call->request.mutable_constraint() = constraint;
  call->request.mutable_owner()->set_tenant(context.work.owner.tenant);
  call->request.mutable_owner()->set_weight(context.work.owner.weight);
  call->work = context.work;
  call->deadline = std::min(context.deadline, SteadyTime::Now() + kPatience);
  call->callback = std::move(callback);
  if (context.cancellation != nullptr) {
    context.cancellation->OnCancel([self = weak_from_this(), weak = std::weak_ptr<Call>(call)] {
      const std::shared_ptr<ConstraintPreparer> preparer = self.lock();
      const std::shared_ptr<Call> left = weak.lock();
      if (preparer != nullptr && left != nullptr) preparer->Leave(*left);
    });
  }
  GetVocabulary(call->deadline, [self = shared_from_this(), call](const Vocabulary& vocabulary) {
    if (!vocabulary.ok()) return call->callback(vocabulary.status());
    call->vocabulary = *vocabulary;
    self->AskSampler(call);
  });
}

void ConstraintPreparer::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    for (grpc::ClientContext* context : asking_) context->TryCancel();
  }
  PublishVocabulary(Stopped());
}

// ---- What tokens stand for ----

void ConstraintPreparer::GetVocabulary(SteadyTime deadline, VocabularyCallback callback) {
  absl::ReleasableMutexLock lock(&mutex_);
  if (vocabulary_ == nullptr && !stopped_) {
    const bool is_first = waiting_.empty();
    waiting_.push_back(std::move(callback));
    lock.Release();
    if (is_first) FetchPage(0, deadline);
    return;
  }
  const Vocabulary known = stopped_ ? Vocabulary(Stopped()) : Vocabulary(vocabulary_);
  lock.Release();
  if (callback != nullptr) callback(known);
}

void ConstraintPreparer::FetchPage(int32_t first_token_id, SteadyTime deadline) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return;
  v1::GetVocabularyRequest request;
  request.set_first_token_id(first_token_id);
  tokenizer_->GetVocabulary(
      std::move(request), {.deadline = deadline},
      [self = shared_from_this(), deadline](const absl::StatusOr<v1::GetVocabularyResponse>& page) {
        self->OnPage(page, deadline);
      });
}

void ConstraintPreparer::OnPage(const absl::StatusOr<v1::GetVocabularyResponse>& page,
                                SteadyTime deadline) {
  if (!page.ok()) return PublishVocabulary(Annotate(page.status(), "constraint"));
  Vocabulary complete;
  {
    absl::MutexLock lock(&mutex_);
    AddPage(*page);
    if (page->next_token_id() == 0) {
      pages_.mutable_end_token_ids()->Assign(model_.end_token_ids.begin(),
                                             model_.end_token_ids.end());
      complete = vocabulary_ = std::make_shared<std::string>(pages_.SerializeAsString());
    }
  }
  if (!complete.ok()) return FetchPage(page->next_token_id(), deadline);
  PublishVocabulary(complete);
}

void ConstraintPreparer::AddPage(const v1::GetVocabularyResponse& page) {
  for (const v1::VocabularyEntry& entry : page.entries()) {
    if (entry.token_id() >= model_.vocabulary_size) break;
    while (pages_.token_bytes_size() < entry.token_id()) pages_.add_token_bytes();
    pages_.add_token_bytes(entry.special() ? "" : entry.text());
  }
}

void ConstraintPreparer::PublishVocabulary(const Vocabulary& vocabulary) {
  std::vector<VocabularyCallback> waiting;
  {
    absl::MutexLock lock(&mutex_);
    waiting.swap(waiting_);
    pages_.Clear();
  }
  for (const VocabularyCallback& callback : waiting) callback(vocabulary);
}

// ---- The sampler ----

void ConstraintPreparer::Leave(Call& call) {
  absl::MutexLock lock(&mutex_);
  call.left = true;
  if (asking_.contains(call.context.get())) call.context->TryCancel();
}

void ConstraintPreparer::AskSampler(const std::shared_ptr<Call>& call) {
  call->response.Clear();
  absl::MutexLock lock(&mutex_);
  call->context = std::make_unique<grpc::ClientContext>();
  call->context->set_wait_for_ready(true);
  const absl::Duration left = call->work.left();
  if (left < absl::InfiniteDuration()) {
    call->request.set_max_work_us(
        static_cast<uint64_t>(std::max<int64_t>(1, absl::ToInt64Microseconds(left))));
  }
  SetDeadline(*call->context, call->deadline);
  asking_.insert(call->context.get());
  if (stopped_ || call->left) call->context->TryCancel();
  sampler_->async()->PrepareConstraint(
      call->context.get(), &call->request, &call->response,
      [self = shared_from_this(), call](const grpc::Status& status) {
        self->OnAnswer(call, FromGrpc(status));
      });
}

void ConstraintPreparer::OnAnswer(const std::shared_ptr<Call>& call, const absl::Status& status) {
  bool stopped = false, left = false;
  {
    absl::MutexLock lock(&mutex_);
    asking_.erase(call->context.get());
    stopped = stopped_;
    left = call->left;
  }
  const absl::Status budget = call->work.Add(WorkOf(*call->context));
  if (stopped) return call->callback(Stopped());
  if (!budget.ok()) return call->callback(Annotate(budget, "constraint"));
  // A sampler that is stopped cancels the calls that it has begun.
  const bool is_stopped = absl::IsCancelled(status) && !left;
  const bool is_lost = absl::IsUnavailable(status) || is_stopped;
  if (is_lost && ++call->num_lost < kMaxAttempts) return AskSampler(call);
  if (is_stopped)
    return call->callback(absl::UnavailableError("constraint: the sampler was stopped"));
  if (!status.ok()) return call->callback(Annotate(status, "constraint"));
  if (call->response.needs_vocabulary()) {
    call->request.mutable_vocabulary()->ParseFromString(*call->vocabulary);
    return AskSampler(call);
  }
  auto kept = std::make_shared<ConstraintSpec>();
  kept->tenant = call->work.owner.tenant;
  kept->tenant_weight = call->work.owner.weight;
  kept->constraint = call->request.constraint().SerializeAsString();
  kept->vocabulary = call->vocabulary;
  call->callback(std::shared_ptr<const ConstraintSpec>(std::move(kept)));
}

}  // namespace sluice
