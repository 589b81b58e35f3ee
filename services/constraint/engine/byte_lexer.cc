#include "services/constraint/engine/byte_lexer.h"

#include <algorithm>
#include <string_view>

namespace sluice {
namespace {

constexpr std::string_view kEscapeLetters = "\"\\bfnrt/";
constexpr std::string_view kEscapeMeans = "\"\\\b\f\n\r\t/";

bool HasShortEscape(uint32_t code) {
  return code < 0x80 && code != '/' &&
         kEscapeMeans.find(static_cast<char>(code)) != std::string_view::npos;
}

}  // namespace

ByteLexer::ByteLexer(ExprSpace& space) : space_(space) {
  keys_.push_back({Kind::kDead, Spelling::kPlain, 0, {}});
  info_.emplace_back();
}

ByteLexer::State ByteLexer::Start(ExprId expr, Spelling spelling) {
  if (!space_.IsLive(expr)) return kDead;
  return Intern({Kind::kText, spelling, expr, {}});
}

ByteLexer::State ByteLexer::Intern(Key key) {
  const auto [it, inserted] = ids_.try_emplace(key, static_cast<State>(keys_.size()));
  if (!inserted) return it->second;
  memory_ += 2 * (sizeof(Key) + key.arcs.size() * sizeof(BlockArc)) + sizeof(Info);
  Info info;
  info.accepting =
      key.kind == Kind::kEnd ||
      (key.kind == Kind::kText && key.spelling == Spelling::kPlain && space_.IsNullable(key.a));
  keys_.push_back(std::move(key));
  info_.push_back(std::move(info));
  return it->second;
}

bool ByteLexer::IsFreeString(State state, uint32_t* min, uint32_t* max) const {
  const Key& key = keys_[state];
  return key.kind == Kind::kText && key.spelling == Spelling::kJsonString &&
         space_.IsAnyText(key.a, min, max);
}

ByteLexer::State ByteLexer::WithoutFarEnd(State state, uint32_t bytes) {
  const Key& key = keys_[state];
  if (key.kind != Kind::kText) return state;
  const ExprId near = space_.WithoutFarEnd(key.a, bytes);
  return near == key.a ? state : Intern({Kind::kText, key.spelling, near, {}});
}

void ByteLexer::Expand(State state) {
  auto table = std::make_unique<Table>();
  table->fill(kDead);
  memory_ += sizeof(Table);
  const Key key = keys_[state];
  switch (key.kind) {
    case Kind::kDead:
    case Kind::kEnd:
      break;
    case Kind::kText:
      ExpandText(state, key, *table);
      break;
    case Kind::kTrail:
      ExpandTrail(key, *table);
      break;
    case Kind::kEscape:
      ExpandEscape(key, *table);
      break;
    case Kind::kHex:
      ExpandHex(key, *table);
      break;
    case Kind::kLowEscape:
      (*table)['\\'] = Intern({Kind::kLowU, key.spelling, key.a, {}});
      break;
    case Kind::kLowU:
      (*table)['u'] = Intern({Kind::kHex, key.spelling, 4, {{0xDC00, 0xDFFF, key.a}}});
      break;
  }
  Info& info = info_[state];
  for (int byte = 0; byte < 256; ++byte)
    if ((*table)[byte] != kDead) info.live.set(byte);
  info.next = std::move(table);
  info.expanded = true;
}

std::vector<ByteLexer::BlockArc> ByteLexer::TargetStates(ExprId expr, Spelling spelling) {
  const std::vector<ExprArc> arcs = space_.Arcs(expr);
  std::vector<BlockArc> targets;
  targets.reserve(arcs.size());
  for (const ExprArc& arc : arcs)
    targets.push_back({arc.first, arc.last, Intern({Kind::kText, spelling, arc.target, {}})});
  return targets;
}

bool ByteLexer::IsFree(const std::vector<BlockArc>& arcs) {
  return arcs.size() == 2 && arcs[0].target == arcs[1].target && arcs[0].first == 0 &&
         arcs[0].last == 0xD7FF && arcs[1].first == 0xE000 && arcs[1].last == kMaxCodePoint;
}

ByteLexer::State ByteLexer::Block(Kind kind, Spelling spelling, uint32_t left, uint32_t first,
                                  uint32_t size, const std::vector<BlockArc>& arcs) {
  Key key{kind, spelling, left, {}};
  auto arc = std::lower_bound(arcs.begin(), arcs.end(), first,
                              [](const BlockArc& a, uint32_t code) { return a.last < code; });
  for (; arc != arcs.end() && arc->first <= first + size - 1; ++arc) {
    const uint32_t low = std::max(arc->first, first) - first;
    const uint32_t high = std::min(arc->last, first + size - 1) - first;
    key.arcs.push_back({low, high, arc->target});
  }
  if (key.arcs.empty()) return kDead;
  if (size == 1) return key.arcs[0].target;
  return Intern(std::move(key));
}

void ByteLexer::ExpandText(State state, const Key& key, Table& table) {
  const std::vector<BlockArc> arcs = TargetStates(key.a, key.spelling);
  const bool json = key.spelling == Spelling::kJsonString;
  bool escapes = false;
  for (const BlockArc& arc : arcs) {
    for (uint32_t code = arc.first; code <= std::min<uint32_t>(arc.last, 0x7F); ++code) {
      const bool escaped = json && (code < 0x20 || HasShortEscape(code));
      escapes |= escaped;
      if (!escaped) table[code] = arc.target;
    }
  }
  if (!arcs.empty() && arcs.back().last >= 0x80) {
    constexpr uint32_t kBlocks[] = {0, 64, 4096, 262144};
    for (uint32_t lead = 0xC2; lead <= 0xF4; ++lead) {
      const uint32_t left = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
      uint32_t first = (lead & (0x3F >> left)) << (6 * left);
      table[lead] = Block(Kind::kTrail, key.spelling, left, first, kBlocks[left], arcs);
      // Overlong forms have no code in the block: 0x80 begins E0's and 0x10000 F0's.
      if (lead == 0xE0 || lead == 0xF0) {
        const uint32_t least = lead == 0xE0 ? 0x800 : 0x10000;
        std::vector<BlockArc> rest;
        for (const BlockArc& arc : arcs)
          if (arc.last >= least) rest.push_back({std::max(arc.first, least), arc.last, arc.target});
        table[lead] = Block(Kind::kTrail, key.spelling, left, first, kBlocks[left], rest);
      }
    }
  }
  if (json && escapes) table['\\'] = Intern({Kind::kEscape, key.spelling, key.a, {}});
  if (json && space_.IsNullable(key.a))
    table['"'] = Intern({Kind::kEnd, Spelling::kJsonString, 0, {}});
  info_[state].self_loop = SelfLoopOf(state, table, arcs);
}

CharClasses ByteLexer::SelfLoopOf(State state, const Table& table,
                                  const std::vector<BlockArc>& arcs) {
  CharClasses loops = kAllClasses;
  for (int byte = 0x20; byte < 0x7F; ++byte)
    if (table[byte] != state) loops &= ~ClassOfByte(static_cast<uint8_t>(byte));
  uint32_t covered = 0x80;
  for (const BlockArc& arc : arcs) {
    if (arc.last < 0x80 || arc.target != state) continue;
    if (covered == 0xD800) covered = 0xE000;
    if (arc.first <= covered) covered = arc.last + 1;
  }
  if (covered <= kMaxCodePoint) loops &= ~kNotAsciiClass;
  return loops;
}

void ByteLexer::ExpandEscape(const Key& key, Table& table) {
  const std::vector<BlockArc> arcs = TargetStates(key.a, key.spelling);
  const bool free = IsFree(arcs);
  for (size_t i = 0; i < kEscapeLetters.size(); ++i) {
    if (kEscapeLetters[i] == '/' && !free) continue;
    const auto letter = static_cast<unsigned char>(kEscapeLetters[i]);
    table[letter] =
        Block(Kind::kTrail, key.spelling, 0, static_cast<unsigned char>(kEscapeMeans[i]), 1, arcs);
  }
  std::vector<BlockArc> hex;
  if (free) {
    const State behind = arcs[0].target;
    const State low = Intern({Kind::kLowEscape, key.spelling, behind, {}});
    hex = {{0, 0xD7FF, behind}, {0xD800, 0xDBFF, low}, {0xE000, 0xFFFF, behind}};
  } else {
    for (const BlockArc& arc : arcs)
      for (uint32_t code = arc.first; code <= std::min<uint32_t>(arc.last, 0x1F); ++code)
        if (!HasShortEscape(code)) hex.push_back({code, code, arc.target});
  }
  if (!hex.empty()) table['u'] = Intern({Kind::kHex, key.spelling, 4, hex});
}

void ByteLexer::ExpandHex(const Key& key, Table& table) {
  const uint32_t size = 1u << (4 * (key.a - 1));
  for (uint32_t digit = 0; digit < 16; ++digit) {
    const State next = Block(Kind::kHex, key.spelling, key.a - 1, digit * size, size, key.arcs);
    table[static_cast<unsigned char>("0123456789abcdef"[digit])] = next;
    table[static_cast<unsigned char>("0123456789ABCDEF"[digit])] = next;
  }
}

void ByteLexer::ExpandTrail(const Key& key, Table& table) {
  const uint32_t size = 1u << (6 * (key.a - 1));
  for (uint32_t bits = 0; bits < 64; ++bits)
    table[0x80 + bits] = Block(Kind::kTrail, key.spelling, key.a - 1, bits * size, size, key.arcs);
}

}  // namespace sluice
