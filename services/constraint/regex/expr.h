// Languages of texts as expressions that can be united, intersected and complemented, and their
// derivatives (Brzozowski, 1964): the derivative by a character is the language of what may follow
// it, so that expressions are the states of a deterministic automaton that is built only where it
// is walked. Expressions are interned: equal ones (up to the rewriting below) have one id.
//
// Characters are code points; how they are spelled in bytes is the business of engine/byte_lexer.h.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "services/constraint/regex/code_set.h"
#include "services/constraint/regex/number_machine.h"

namespace sluice {

using ExprId = uint32_t;

// After a character from `first` to `last`, `target` may follow.
struct ExprArc {
  uint32_t first = 0;
  uint32_t last = 0;  // inclusive
  ExprId target = 0;
};

struct ExprLimits {
  size_t max_exprs = 200'000;
  // States that one question for emptiness may visit.
  size_t max_search = 20'000;
  // Once it is requested, a limit has been passed: the requester has gone. Not to be
  // requested any more once another request uses the space.
  std::stop_token stop;
};

class ExprSpace {
 public:
  static constexpr uint32_t kUnbounded = UINT32_MAX;

  explicit ExprSpace(const ExprLimits& limits = {});
  ExprSpace(const ExprSpace&) = delete;
  ExprSpace& operator=(const ExprSpace&) = delete;

  ExprId Nothing() const { return 0; }  // no text
  ExprId Empty() const { return 1; }    // the text without characters
  ExprId AnyText() const { return any_text_; }
  ExprId Set(const CodeSet& set);
  // REQUIRES: valid UTF-8.
  ExprId Literal(std::string_view text);
  ExprId Concat(ExprId a, ExprId b);
  ExprId Or(std::vector<ExprId> exprs);
  ExprId And(std::vector<ExprId> exprs);
  ExprId Not(ExprId expr);
  // From `min` to `max` times, kUnbounded for any number.
  ExprId Repeat(ExprId expr, uint32_t min, uint32_t max);
  // Texts of `min` to `max` characters.
  ExprId AnyTextOfLength(uint32_t min, uint32_t max);
  // The texts of JSON numbers that keep `rules`.
  ExprId Number(const NumberRules& rules);

  bool IsNullable(ExprId expr) const { return nodes_[expr].nullable; }
  // The same, without an upper limit of more than `length` characters where it has one for itself
  // or as one of what it intersects.
  ExprId WithoutFarEnd(ExprId expr, uint32_t length);

  // Whether it is AnyTextOfLength(*min, *max).
  bool IsAnyText(ExprId expr, uint32_t* min, uint32_t* max) const;

  // What may follow each character, sorted and disjoint; arcs into dead states are left out. Valid
  // until the next call of a member that is not const.
  const std::vector<ExprArc>& Arcs(ExprId expr);
  // Whether it holds any text.
  bool IsLive(ExprId expr);
  // Whether it holds `text`. REQUIRES: valid UTF-8.
  bool Matches(ExprId expr, std::string_view text);

  // Has `checkpoint`, which is borrowed, called about every twenty microseconds of work from now
  // on; null: nothing is called. It may take its time, so that others are served meanwhile.
  void set_checkpoint(const std::function<void()>* checkpoint) { checkpoint_ = checkpoint; }
  // So much work, some tens of nanoseconds each, was done here or by who uses the space.
  void Checkpoint(size_t work) {
    if (checkpoint_ == nullptr || (since_checkpoint_ += work) < kCheckpointWork) return;
    since_checkpoint_ = 0;
    (*checkpoint_)();
  }

  // Set once a limit was passed; what the space answers after that is of no use.
  bool exhausted() const { return exhausted_ || limits_.stop.stop_requested(); }
  // Forgets all expressions with ids from `size` on, and that a limit was passed.
  void ShrinkTo(size_t size);
  size_t size() const { return nodes_.size(); }
  // How much was derived so far, some tens of nanoseconds each.
  size_t work() const { return work_; }
  // Roughly, in bytes.
  size_t memory() const { return memory_; }

 private:
  // Recursion deeper than this passes for exhaustion: expressions are nested no deeper than
  // patterns may be (pattern_parser.h), but derivatives nest them anew.
  static constexpr int kMaxRecursion = 2000;
  static constexpr size_t kCheckpointWork = 1000;

  enum class Kind : uint8_t { kNothing, kEmpty, kSet, kConcat, kOr, kAnd, kNot, kRepeat, kNumber };
  struct Key {
    Kind kind;
    uint32_t a, b, min, max;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.kind, key.a, key.b, key.min, key.max);
    }
  };
  enum class Life : uint8_t { kUnknown, kLive, kDead };
  struct Node {
    Key key;
    bool nullable = false;
    bool can_be_empty_set = false;  // holds an intersection, complement or number: may be empty
    Life life = Life::kUnknown;
  };
  using ArcList = std::vector<ExprArc>;

  ExprId Intern(const Key& key, bool nullable, bool can_be_empty_set);
  uint32_t InternList(const std::vector<ExprId>& list);
  uint32_t InternSet(const CodeSet& set);
  ExprId FromList(Kind kind, std::vector<ExprId> list);
  void Flatten(Kind kind, std::vector<ExprId>& list) const;

  ArcList Derive(ExprId expr);
  ArcList DeriveConcat(const Key& key);
  ArcList DeriveRepeat(const Key& key);
  ArcList DeriveNot(ExprId inner);
  ArcList DeriveNumber(const Key& key);
  // Unites (or intersects) what the lists say of each character.
  ArcList Merge(Kind kind, const std::vector<ArcList>& lists);
  static void Join(ArcList& arcs);
  bool SearchLife(ExprId root);
  void Exhaust() { exhausted_ = true; }

  const ExprLimits limits_;
  std::vector<Node> nodes_;
  absl::flat_hash_map<Key, ExprId> ids_;
  std::vector<std::vector<ExprId>> lists_;
  absl::flat_hash_map<std::vector<ExprId>, uint32_t> list_ids_;
  std::vector<CodeSet> sets_;
  absl::flat_hash_map<CodeSet, uint32_t> set_ids_;
  std::vector<std::unique_ptr<NumberMachine>> machines_;
  absl::flat_hash_map<std::string, ExprId> numbers_;  // by the rules' text
  absl::flat_hash_map<ExprId, std::unique_ptr<ArcList>> arcs_;
  ExprId any_char_ = 0;
  ExprId any_text_ = 0;
  size_t memory_ = 0;
  size_t work_ = 0;
  int depth_ = 0;  // of recursion
  const std::function<void()>* checkpoint_ = nullptr;
  size_t since_checkpoint_ = 0;
  bool exhausted_ = false;
};

}  // namespace sluice
