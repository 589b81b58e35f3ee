#include "services/constraint/schema/object_rules.h"

#include <algorithm>
#include <bit>

#include "services/constraint/json/message.h"

namespace sluice {
namespace {

constexpr size_t kMaxPatterns = 24;
constexpr size_t kMaxOthers = 300;
constexpr size_t kMaxSome = 6;
constexpr uint32_t kMaxCountedMembers = 2'000;

absl::Status TooMany(std::string_view what, size_t most) {
  return absl::ResourceExhaustedError(Message("an object with more than ", most, " ", what));
}

void Append(Claims& claims, const Claim& claim) {
  if (std::find(claims.begin(), claims.end(), claim) == claims.end()) claims.push_back(claim);
}

}  // namespace

ObjectRules::ObjectRules(ValueRules& rules, const Shape& shape) : rules_(rules), shape_(shape) {}

Claims ObjectRules::ClaimsOf(const MemberRules& rules, std::string_view name) const {
  Claims claims;
  for (const auto& [known, claim] : rules.named)
    if (known == name) claims.push_back(claim);
  for (const auto& [pattern, claim] : rules.patterns)
    if (rules_.builder_.space().Matches(pattern, name)) claims.push_back(claim);
  if (claims.empty() && rules.additional.has_value()) claims.push_back(*rules.additional);
  return claims;
}

uint32_t ObjectRules::SomeOf(std::string_view name) const {
  uint32_t some = 0;
  for (size_t i = 0; i < shape_.some_members.size(); ++i)
    if (rules_.builder_.space().Matches(shape_.some_members[i].names, name)) some |= 1u << i;
  return some;
}

void ObjectRules::AddNamed(std::string_view name, bool new_group,
                           absl::flat_hash_map<std::string_view, size_t>& seen) {
  if (!seen.try_emplace(name, named_.size()).second) return;
  group_.push_back(group_.empty() ? 0 : group_.back() + (new_group ? 1 : 0));
  named_.push_back({.name = name});
}

absl::Status ObjectRules::Gather() {
  absl::flat_hash_map<std::string_view, size_t> seen;
  for (const MemberRules& rules : shape_.members)
    for (const auto& entry : rules.named)
      AddNamed(entry.first, !rules.ordered || &entry == &rules.named[0], seen);
  for (const std::string_view name : shape_.required) AddNamed(name, true, seen);
  for (const std::string_view name : shape_.forbidden) AddNamed(name, true, seen);
  for (const std::string_view name : shape_.required) named_[seen[name]].required = true;
  // What each set of rules says, named members by a walk over them and not by a search for each.
  for (const MemberRules& rules : shape_.members) {
    std::vector<bool> known(named_.size());
    for (const auto& [name, claim] : rules.named) {
      const size_t index = seen[name];
      known[index] = true;
      Append(named_[index].claims, claim);
    }
    for (size_t i = 0; i < named_.size(); ++i) {
      for (const auto& [pattern, claim] : rules.patterns) {
        if (!rules_.builder_.space().Matches(pattern, named_[i].name)) continue;
        known[i] = true;
        Append(named_[i].claims, claim);
      }
      if (!known[i] && rules.additional.has_value()) Append(named_[i].claims, *rules.additional);
    }
  }
  for (const std::string_view name : shape_.forbidden) {
    static const auto* const kFalse = new JsonValue{.type = JsonValue::Type::kFalse};
    named_[seen[name]].claims = {Claim{.node = kFalse}};
  }
  ExprSpace& space = rules_.builder_.space();
  for (Named& named : named_) {
    for (const ExprId names : shape_.names) {
      static const auto* const kFalse = new JsonValue{.type = JsonValue::Type::kFalse};
      if (!space.Matches(names, named.name)) named.claims = {Claim{.node = kFalse}};
    }
    if (!shape_.some_members.empty()) named.some = SomeOf(named.name);
  }
  if (shape_.some_members.size() > kMaxSome) return TooMany("negated conditions", kMaxSome);
  return GatherOthers();
}

absl::Status ObjectRules::GatherOthers() {
  ExprSpace& space = rules_.builder_.space();
  for (const MemberRules& rules : shape_.members)
    for (const auto& [pattern, claim] : rules.patterns)
      if (std::find(patterns_.begin(), patterns_.end(), pattern) == patterns_.end())
        patterns_.push_back(pattern);
  for (const SomeMember& some : shape_.some_members)
    if (std::find(patterns_.begin(), patterns_.end(), some.names) == patterns_.end())
      patterns_.push_back(some.names);
  if (patterns_.size() > kMaxPatterns) return TooMany("patterns for names", kMaxPatterns);
  std::vector<ExprId> known;
  for (const Named& named : named_) known.push_back(space.Literal(named.name));
  std::vector<ExprId> left = shape_.names;
  left.push_back(space.Not(space.Or(std::move(known))));
  return SplitNames(0, space.And(std::move(left)), 0);
}

absl::Status ObjectRules::SplitNames(size_t index, ExprId names, uint32_t matched) {
  ExprSpace& space = rules_.builder_.space();
  if (index < patterns_.size()) {
    const ExprId in = space.And({names, patterns_[index]});
    if (space.IsLive(in))
      if (absl::Status status = SplitNames(index + 1, in, matched | 1u << index); !status.ok())
        return status;
    const ExprId out = space.And({names, space.Not(patterns_[index])});
    return space.IsLive(out) ? SplitNames(index + 1, out, matched) : absl::OkStatus();
  }
  if (space.exhausted()) return TooMany("states for its names", 20'000);
  const auto has = [&](ExprId pattern) {
    const auto it = std::find(patterns_.begin(), patterns_.end(), pattern);
    return (matched >> (it - patterns_.begin()) & 1) != 0;
  };
  Others others{.names = names};
  for (const MemberRules& rules : shape_.members) {
    bool known = false;
    for (const auto& [pattern, claim] : rules.patterns) {
      if (!has(pattern)) continue;
      known = true;
      Append(others.claims, claim);
    }
    if (!known && rules.additional.has_value()) Append(others.claims, *rules.additional);
  }
  for (size_t i = 0; i < shape_.some_members.size(); ++i)
    if (has(shape_.some_members[i].names)) others.some |= 1u << i;
  if (ValueRules::IsNever(others.claims) || !space.IsLive(names)) return absl::OkStatus();
  for (Others& same : others_) {
    if (same.claims != others.claims || same.some != others.some) continue;
    same.names = space.Or({same.names, names});
    return absl::OkStatus();
  }
  if (others_.size() >= kMaxOthers) return TooMany("kinds of names", kMaxOthers);
  others_.push_back(std::move(others));
  return absl::OkStatus();
}

void ObjectRules::MakeChains() {
  constexpr uint64_t kMaxInterleavings = 48;
  for (const bool interleaved : {true, false}) {
    chains_.clear();
    size_t group = SIZE_MAX;
    for (uint32_t i = 0; i < named_.size(); ++i) {
      if (ValueRules::IsNever(named_[i].claims) && !named_[i].required) continue;
      if (chains_.empty() || (interleaved && group_[i] != group)) chains_.emplace_back();
      group = group_[i];
      chains_.back().push_back(i);
    }
    uint64_t places = 1;
    for (const auto& chain : chains_)
      places = std::min<uint64_t>(places * (chain.size() + 1), UINT32_MAX);
    if (chains_.size() <= 1 || places <= kMaxInterleavings) break;
  }
  uint32_t stride = 1;
  for (const auto& chain : chains_) {
    strides_.push_back(stride);
    stride *= static_cast<uint32_t>(chain.size()) + 1;
  }
  chains_end_ = stride - 1;
}

uint32_t ObjectRules::RequiredLeft(const Place& place) const {
  uint32_t left = 0;
  for (size_t c = 0; c < chains_.size(); ++c)
    for (size_t i = Position(place, c); i < chains_[c].size(); ++i)
      left += named_[chains_[c][i]].required ? 1 : 0;
  return left;
}

bool ObjectRules::MayEnd(const Place& place) const {
  return place.some == 0 && place.count >= min_members_ && RequiredLeft(place) == 0;
}

ObjectRules::Nodes ObjectRules::NodesOf(const Place& place) {
  const auto [it, inserted] = nodes_.try_emplace(place);
  if (!inserted) return it->second;
  const Nodes nodes{rules_.builder_.AddNode(), rules_.builder_.AddNode()};
  it->second = nodes;
  todo_.push_back(place);
  return nodes;
}

absl::Status ObjectRules::Emit(NodeId from, NodeId to) {
  if (absl::Status status = Gather(); !status.ok()) return status;
  MakeChains();
  const uint32_t num_required = RequiredLeft(Place{});
  min_members_ = shape_.min_members <= num_required ? 0 : shape_.min_members;
  max_count_ = min_members_;
  if (shape_.max_members != UINT32_MAX && (!others_.empty() || shape_.max_members < named_.size()))
    max_count_ = std::max(max_count_, shape_.max_members);
  if (max_count_ > kMaxCountedMembers) return TooMany("counted members", kMaxCountedMembers);
  end_ = to;
  GrammarBuilder& builder = rules_.builder_;
  const Place none{.some = (1u << shape_.some_members.size()) - 1};
  const NodeId open = builder.AddNode();
  rules_.AddMark(from, "{", open, false, true);
  builder.AddEpsilon(open, NodesOf(none).before_member);
  if (MayEnd(none)) builder.AddBytes(open, "}", to);
  while (!todo_.empty() && !builder.exhausted()) {
    const Place place = todo_.back();
    todo_.pop_back();
    EmitPlace(place);
  }
  return absl::OkStatus();
}

void ObjectRules::EmitPlace(const Place& place) {
  GrammarBuilder& builder = rules_.builder_;
  const Nodes nodes = NodesOf(place);
  if (place.chains > 0 || chains_end_ == 0) {
    if (MayEnd(place)) rules_.AddMark(nodes.behind_member, "}", end_, true, false);
    rules_.AddMark(nodes.behind_member, ",", nodes.before_member, true, true);
  }
  if (shape_.max_members != UINT32_MAX && max_count_ >= shape_.max_members &&
      place.count >= shape_.max_members)
    return;
  const auto go_on = [&](uint32_t chains) {
    Place next = place;
    next.chains = chains;
    builder.AddEpsilon(nodes.before_member, NodesOf(next).before_member);
  };
  for (size_t c = 0; c < chains_.size(); ++c) {
    // One chain is left behind member by member; of several, one is followed to each next member,
    // so that there is one way to each.
    const std::vector<uint32_t>& chain = chains_[c];
    uint32_t next = place.chains;
    for (size_t i = Position(place, c); i < chain.size(); ++i) {
      next += strides_[c];
      EmitNamed(place, chain[i], next);
      if (named_[chain[i]].required) break;
      if (chains_.size() > 1) continue;
      go_on(next);
      break;
    }
  }
  if (place.chains == chains_end_) {
    EmitOthers(place);
  } else if (chains_.size() > 1 && !others_.empty() && RequiredLeft(place) == 0) {
    go_on(chains_end_);
  }
}

void ObjectRules::EmitNamed(const Place& place, uint32_t index, uint32_t next) {
  GrammarBuilder& builder = rules_.builder_;
  const Named& named = named_[index];
  if (ValueRules::IsNever(named.claims)) return;
  const NodeId behind_name = builder.AddNode(), value = builder.AddNode();
  builder.AddBytes(NodesOf(place).before_member, JsonQuoted(named.name), behind_name);
  rules_.AddMark(behind_name, ":", value, true, true);
  EmitValue(place, next, value, named.claims, named.some);
}

void ObjectRules::EmitOthers(const Place& place) {
  GrammarBuilder& builder = rules_.builder_;
  for (const Others& others : others_) {
    const NodeId name = builder.AddNode(), behind_name = builder.AddNode(),
                 value = builder.AddNode();
    builder.AddBytes(NodesOf(place).before_member, "\"", name);
    builder.AddText(name, others.names, Spelling::kJsonString, behind_name);
    rules_.AddMark(behind_name, ":", value, true, true);
    EmitValue(place, place.chains, value, others.claims, others.some);
  }
}

void ObjectRules::EmitValue(const Place& place, uint32_t next_chains, NodeId from,
                            const Claims& claims, uint32_t some) {
  // Each subset of what it may keep, and of what is still wanted.
  const uint32_t wanted = some & place.some;
  for (uint32_t kept = wanted;; kept = (kept - 1) & wanted) {
    Claims all = claims;
    for (size_t i = 0; i < shape_.some_members.size(); ++i)
      if ((kept >> i & 1) != 0) all.push_back(shape_.some_members[i].claim);
    Place next{.chains = next_chains,
               .count = std::min(place.count + 1, max_count_),
               .some = place.some & ~kept};
    if (!ValueRules::IsNever(all))
      rules_.builder_.AddCall(from, rules_.RuleOf(std::move(all)), NodesOf(next).behind_member);
    if (kept == 0) break;
  }
}

}  // namespace sluice
