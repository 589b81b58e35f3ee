// The texts of JSON numbers whose values keep rules, as an automaton over their characters whose
// states are made where they are walked. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/constraint/json/decimal.h"

namespace sluice {

struct NumberRules {
  // The value compared with `bound` must be one of those that are allowed.
  struct Bound {
    Decimal bound;
    bool less = false;
    bool equal = false;
    bool greater = false;
  };
  // The value must (or, where `negated`, must not) be a whole multiple of numerator / 10^scale.
  struct Multiple {
    uint64_t numerator = 1;  // in [1, kMaxNumerator]
    int scale = 0;           // in [0, kMaxScale]
    bool negated = false;
  };
  static constexpr uint64_t kMaxNumerator = 20'000;  // it is a number of states
  static constexpr int kMaxScale = 30;

  std::vector<Bound> bounds;
  std::vector<Multiple> multiples;
  bool integer = false;      // whole values only
  bool not_integer = false;  // no whole values
  // A whole value is spelled as an integer: without fraction, exponent and minus before 0. Where it
  // is not asked for, 5.0, 5e0 and -0 are spellings too.
  bool plain_integers = false;

  // The same for the same rules in the same order, and no others.
  std::string Key() const;
};

// Texts have an exponent only where the value's place is clear without its digits: with one digit
// from 1 to 9 before the point, and a value that is larger than all bounds or nearer to 0 than
// these, as the numbers are that Python and JavaScript write so.
//
// Whoever reads a point or an exponent reads a double. So that what is whole stays so, and what is not 0
// does, .0 comes behind 18 digits at most, and an exponent is at most 308 where rules look at the value.
class NumberMachine {
 public:
  static constexpr uint32_t kDead = 0;

  explicit NumberMachine(const NumberRules& rules);

  uint32_t start() const { return start_; }
  uint32_t Step(uint32_t state, char c);
  bool IsAccepting(uint32_t state) const { return accepting_[state]; }

 private:
  enum Phase : uint8_t { kStart, kSign, kZero, kInteger, kPoint, kFraction, kE, kESign, kExponent };
  // Magnitudes are compared digit by digit: -1, 0 or 1 so far.
  struct State {
    Phase phase = kStart;
    bool negative = false;
    bool nonzero = false;  // a digit was not 0
    bool fraction_nonzero = false;
    bool one_digit = false;      // exactly one digit before the point, not 0
    bool whole_spelling = true;  // no digit behind the point
    bool exponent_negative = false;
    uint32_t num_integer = 0;         // digits before the point, up to one more than any bound has
    uint32_t num_fraction = 0;        // digits behind it, up to what bounds and multiples look at
    int32_t exponent = 0;             // up to max_exponent_: more makes no difference
    uint8_t exponent_digits = 0;      // up to 3
    uint8_t exponent_start = 0;       // the first two of them, up to 31, where rules look at them
    bool is_one = false;              // one digit before the point, a 1, where values must be whole
    std::vector<int8_t> compare;      // by bound: the digits so far, against as many of its digits
    std::vector<uint64_t> remainder;  // by multiple
    auto Fields() const {
      return std::tie(phase, negative, nonzero, fraction_nonzero, one_digit, whole_spelling,
                      exponent_negative, num_integer, num_fraction, exponent, exponent_digits,
                      exponent_start, is_one, compare, remainder);
    }
    bool operator==(const State& other) const { return Fields() == other.Fields(); }
    template <typename H>
    friend H AbslHashValue(H h, const State& s) {
      return H::combine(std::move(h), s.phase, s.negative, s.nonzero, s.fraction_nonzero,
                        s.one_digit, s.whole_spelling, s.exponent_negative, s.num_integer,
                        s.num_fraction, s.exponent, s.exponent_digits, s.exponent_start, s.is_one,
                        s.compare, s.remainder);
    }
  };

  uint32_t Intern(const State& state);
  // False where `c` can't follow.
  bool Next(State& state, char c) const;
  bool Digit(State& state, int digit) const;
  bool ExponentDigit(State& state, int digit) const;
  bool Point(State& state) const;
  bool Exponent(State& state) const;
  void EndInteger(State& state) const;
  void Compare(State& state, int digit) const;
  bool Accepts(State state) const;
  // Negative, 0 or positive as the magnitude is less than, equal to or greater than the bound's;
  // false where an exponent leaves that open.
  bool CompareMagnitude(const State& state, size_t bound, int* order) const;
  bool InBounds(const State& state) const;
  bool IsMultiple(const State& state, size_t index) const;
  bool IsWhole(const State& state) const;
  bool looks_at_value() const { return !rules_.bounds.empty() || looks_at_fraction(); }
  bool looks_at_fraction() const {
    return rules_.integer || rules_.not_integer || !rules_.multiples.empty();
  }

  const NumberRules rules_;
  uint32_t max_integer_ = 0;   // what num_integer counts up to
  int32_t max_exponent_ = 1;   // what exponent counts up to
  uint32_t max_fraction_ = 0;  // what num_fraction counts up to
  std::vector<State> states_;
  std::vector<bool> accepting_;
  absl::flat_hash_map<State, uint32_t> ids_;
  uint32_t start_ = 0;
};

}  // namespace sluice
