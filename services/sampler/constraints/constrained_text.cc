#include "services/sampler/constraints/constrained_text.h"

#include <mutex>
#include <utility>

namespace sluice {
namespace {

void SetConstraint(const std::shared_ptr<MaskExchange>& exchange,
                   const ConstraintStore::Result& constraint) {
  bool has_question = false;
  {
    const std::lock_guard lock(exchange->mutex);
    if (constraint.ok()) {
      exchange->queue = *constraint;
      has_question = exchange->asked.has_value();
    } else {
      exchange->refused = constraint.status();
    }
    exchange->answered.notify_all();
  }
  if (has_question) (*constraint)->Add(exchange);
}

}  // namespace

struct ConstrainedText::Wait {
  ConstraintStore* store = nullptr;
  std::shared_ptr<MaskExchange> exchange;
  ConstraintStore::Ticket ticket = 0;

  ~Wait() {
    {
      const std::lock_guard lock(exchange->mutex);
      if (exchange->queue != nullptr || !exchange->refused.ok()) return;
    }
    store->Leave(ticket);
  }
};

ConstrainedText::ConstrainedText(const ConstraintStore::Result& constraint)
    : exchange_(std::make_shared<MaskExchange>()) {
  SetConstraint(exchange_, constraint);
}

ConstrainedText::ConstrainedText(ConstraintStore& store, const v1::Constraint& constraint,
                                 const WorkOwner& owner)
    : exchange_(std::make_shared<MaskExchange>()), wait_(std::make_unique<Wait>()) {
  wait_->store = &store;
  wait_->exchange = exchange_;
  wait_->ticket = store.Need(
      constraint, owner,
      [exchange = exchange_](const ConstraintStore::Result& result, absl::Duration work) {
        {
          const std::lock_guard lock(exchange->mutex);
          exchange->work += work;
        }
        SetConstraint(exchange, result);
      });
}

ConstrainedText::~ConstrainedText() = default;
ConstrainedText::ConstrainedText(ConstrainedText&& other) noexcept = default;
ConstrainedText& ConstrainedText::operator=(ConstrainedText&& other) noexcept = default;

void ConstrainedText::Ask(MaskQuery query) {
  // What must follow is more than was asked for: the same masks.
  if (has_asked_ && last_.tokens == query.tokens && last_.drafts == query.drafts &&
      last_.max_following >= query.max_following) {
    return;
  }
  has_asked_ = true;
  last_ = query;
  std::shared_ptr<MaskQueue> queue;
  {
    const std::lock_guard lock(exchange_->mutex);
    exchange_->asked = std::move(query);
    ++exchange_->num_asked;
    queue = exchange_->queue;
  }
  if (queue != nullptr) queue->Add(exchange_);
}

const MaskAnswer* ConstrainedText::Answer(SteadyTime deadline) {
  MaskExchange& exchange = *exchange_;
  std::unique_lock lock(exchange.mutex);
  const auto is_over = [&exchange] {
    return !exchange.refused.ok() || exchange.num_answered == exchange.num_asked;
  };
  if (!exchange.answered.wait_until(lock, deadline.ToChrono(), is_over)) return nullptr;
  if (!exchange.refused.ok()) {
    exchange.answer = {};
    exchange.answer.masks.assign(1 + last_.drafts.size(), exchange.refused);
  }
  return &exchange.answer;  // until there is another question nobody changes it
}

absl::Duration ConstrainedText::TakeWork() {
  const std::lock_guard lock(exchange_->mutex);
  return std::exchange(exchange_->work, absl::ZeroDuration());
}

}  // namespace sluice
