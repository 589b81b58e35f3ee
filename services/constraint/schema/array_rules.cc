#include "services/constraint/schema/array_rules.h"

#include <algorithm>

#include "services/constraint/json/message.h"

namespace sluice {
namespace {

constexpr uint32_t kMaxCountedItems = 20'000;

}  // namespace

ArrayRules::ArrayRules(ValueRules& rules, const Shape& shape) : rules_(rules), shape_(shape) {
  uint32_t fixed = 0;  // items from here on are alike
  for (const ItemRules& items : shape.items)
    fixed = std::max(fixed, static_cast<uint32_t>(items.prefix.size()));
  for (const ContainsRule& contains : shape.contains) fixed = std::max(fixed, contains.from);
  max_count_ = std::max(fixed, shape.min_items);
  if (shape.max_items != UINT32_MAX) max_count_ = std::max(max_count_, shape.max_items);
}

Claims ArrayRules::ClaimsAt(uint32_t index) const {
  Claims claims;
  for (const ItemRules& items : shape_.items) {
    if (index < items.prefix.size()) {
      claims.push_back(items.prefix[index]);
    } else if (items.rest.has_value()) {
      claims.push_back(*items.rest);
    }
  }
  return claims;
}

bool ArrayRules::MayEnd(const Count& count) const {
  if (count.items < shape_.min_items) return false;
  for (size_t i = 0; i < shape_.contains.size(); ++i)
    if (count.contains[i] < shape_.contains[i].min) return false;
  return true;
}

ArrayRules::Nodes ArrayRules::NodesOf(const Count& count) {
  const auto [it, inserted] = nodes_.try_emplace(count);
  if (!inserted) return it->second;
  Nodes nodes{rules_.builder_.AddNode(), rules_.builder_.AddNode()};
  it->second = nodes;
  todo_.push_back(count);
  return nodes;
}

absl::Status ArrayRules::Emit(NodeId from, NodeId to) {
  if (shape_.unique != nullptr && shape_.max_items > 1) {
    // Where no second item can come, none can equal another.
    bool one_at_most = false;
    for (uint32_t i = 0; i < 2; ++i) one_at_most |= ValueRules::IsNever(ClaimsAt(i));
    if (!one_at_most)
      return absl::UnimplementedError(
          Message(rules_.index_.PathOf(*shape_.unique),
                  "/uniqueItems can't be kept for arrays of more than one item"));
  }
  if (max_count_ > kMaxCountedItems)
    return absl::ResourceExhaustedError(
        Message("an array of ", max_count_, " counted items; accepted: up to ", kMaxCountedItems));
  end_ = to;
  GrammarBuilder& builder = rules_.builder_;
  Count none;
  none.contains.resize(shape_.contains.size());
  const Nodes start = NodesOf(none);
  const NodeId open = builder.AddNode();
  rules_.AddMark(from, "[", open, false, true);
  builder.AddEpsilon(open, start.before_item);
  if (MayEnd(none)) builder.AddBytes(open, "]", to);
  while (!todo_.empty() && !builder.exhausted()) {
    const Count count = todo_.back();
    todo_.pop_back();
    EmitItem(count);
  }
  return absl::OkStatus();
}

void ArrayRules::EmitItem(const Count& count) {
  const Nodes nodes = NodesOf(count);
  if (count.items > 0 || max_count_ == 0) {
    if (MayEnd(count)) rules_.AddMark(nodes.behind_item, "]", end_, true, false);
    if (count.items < shape_.max_items)
      rules_.AddMark(nodes.behind_item, ",", nodes.before_item, true, true);
  }
  if (count.items >= shape_.max_items) return;
  Claims claims = ClaimsAt(count.items);
  if (ValueRules::IsNever(claims)) return;
  Count after = count;
  after.items = std::min(count.items + 1, max_count_);
  EmitWays(count, 0, std::move(claims), after);
}

void ArrayRules::EmitWays(const Count& count, size_t index, Claims claims, Count after) {
  if (index == shape_.contains.size()) {
    rules_.builder_.AddCall(NodesOf(count).before_item, rules_.RuleOf(std::move(claims)),
                            NodesOf(after).behind_item);
    return;
  }
  const ContainsRule& rule = shape_.contains[index];
  if (count.items < rule.from) return EmitWays(count, index + 1, std::move(claims), after);
  const bool limited = rule.max != UINT32_MAX;
  const uint32_t seen = count.contains[index];
  // Not kept, or not counted: without a limit it does not matter which.
  Claims not_kept = claims;
  if (limited) {
    not_kept.push_back(rule.claim);
    not_kept.back().negated = !rule.claim.negated;
  }
  EmitWays(count, index + 1, std::move(not_kept), after);
  if (limited ? seen == rule.max : seen >= rule.min) return;
  claims.push_back(rule.claim);
  after.contains[index] = seen + 1;
  EmitWays(count, index + 1, std::move(claims), std::move(after));
}

}  // namespace sluice
