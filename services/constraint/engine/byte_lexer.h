// Languages of texts (regex/expr.h) as automata over bytes, whose states are made where they are
// walked. A text is spelled either plainly, as UTF-8, or as the inside of a JSON string with the
// quote that ends it.
//
// In a JSON string a character stands for itself where it may; others have their short escape or
// \u00XX. Where any character at all may come next, each may also be spelled \uXXXX, and / as \/.
// So the value decides what is right, and a language that is narrow has one spelling.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/constraint/engine/byte_class.h"
#include "services/constraint/regex/expr.h"
#include "services/constraint/regex/spelling.h"

namespace sluice {

class ByteLexer {
 public:
  using State = uint32_t;
  static constexpr State kDead = 0;

  // `space` is borrowed.
  explicit ByteLexer(ExprSpace& space);
  ByteLexer(const ByteLexer&) = delete;
  ByteLexer& operator=(const ByteLexer&) = delete;

  // Where a text of `expr` begins; in a JSON string behind its opening quote. kDead where there is
  // none.
  State Start(ExprId expr, Spelling spelling);

  // Where each byte leads, kDead where it can't come: 256 of them.
  const State* Next(State state) {
    if (!info_[state].expanded) Expand(state);
    return info_[state].next->data();
  }
  const ByteSet& LiveBytes(State state) {
    if (!info_[state].expanded) Expand(state);
    return info_[state].live;
  }
  // Whether the text may end here.
  bool IsAccepting(State state) const { return info_[state].accepting; }
  // Whether anything may follow.
  bool HasNext(State state) { return !LiveBytes(state).none(); }

  // The classes of characters that lead from `state` to itself.
  CharClasses SelfLoop(State state) {
    if (!info_[state].expanded) Expand(state);
    return info_[state].self_loop;
  }

  // Whether it is in a JSON string, between two characters, and any *min to *max more may follow.
  bool IsFreeString(State state, uint32_t* min, uint32_t* max) const;

  // A state that allows the same next `bytes` bytes, in which the texts' length has no upper limit
  // that is farther away; `state` itself where it has none.
  State WithoutFarEnd(State state, uint32_t bytes);

  size_t size() const { return info_.size(); }
  size_t memory() const { return memory_; }

 private:
  enum class Kind : uint8_t {
    kDead,
    kText,       // between two characters; a: expression, spelling
    kTrail,      // inside a UTF-8 character; a: continuation bytes left
    kEnd,        // behind the closing quote
    kEscape,     // behind a backslash; a: expression
    kHex,        // inside \uXXXX; a: digits left
    kLowEscape,  // behind the first half of a surrogate pair: a: the state behind the second
    kLowU,
  };
  // The codes that a byte sequence may still spell, from 0 within its block, and the states behind.
  struct BlockArc {
    uint32_t first, last;
    State target;
    bool operator==(const BlockArc&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const BlockArc& arc) {
      return H::combine(std::move(h), arc.first, arc.last, arc.target);
    }
  };
  struct Key {
    Kind kind;
    Spelling spelling;
    uint32_t a;
    std::vector<BlockArc> arcs;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.kind, key.spelling, key.a, key.arcs);
    }
  };
  using Table = std::array<State, 256>;
  struct Info {
    bool expanded = false;
    bool accepting = false;
    CharClasses self_loop = 0;
    ByteSet live;
    std::unique_ptr<Table> next;
  };

  State Intern(Key key);
  void Expand(State state);
  void ExpandText(State state, const Key& key, Table& table);
  void ExpandEscape(const Key& key, Table& table);
  void ExpandHex(const Key& key, Table& table);
  void ExpandTrail(const Key& key, Table& table);
  // The state behind the rest of a block of `size` codes that begins at `first`.
  State Block(Kind kind, Spelling spelling, uint32_t left, uint32_t first, uint32_t size,
              const std::vector<BlockArc>& arcs);
  std::vector<BlockArc> TargetStates(ExprId expr, Spelling spelling);
  static bool IsFree(const std::vector<BlockArc>& arcs);
  static CharClasses SelfLoopOf(State state, const Table& table, const std::vector<BlockArc>& arcs);

  ExprSpace& space_;
  std::vector<Key> keys_;
  std::vector<Info> info_;
  absl::flat_hash_map<Key, State> ids_;
  size_t memory_ = 0;
};

}  // namespace sluice
