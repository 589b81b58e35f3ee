#include "services/constraint/regex/number_machine.h"

#include <algorithm>
#include <cstdlib>

#include "services/constraint/json/message.h"

namespace sluice {
namespace {

constexpr uint32_t kMostBeforePoint = 18;  // digits of a whole number that is spelled with .0
constexpr int kMostExponent = 308;         // 1e308 is a double, 2e308 is none

constexpr uint64_t kNever = UINT64_MAX;  // the remainder of what is no multiple whatever follows

// Digits that a bound has before the point and behind it.
int64_t IntegerDigits(const Decimal& bound) { return std::max<int64_t>(bound.point, 0); }
int64_t FractionDigits(const Decimal& bound) {
  return std::max<int64_t>(static_cast<int64_t>(bound.digits.size()) - bound.point, 0);
}

// The digit of 10^(point - 1 - index), from the bound's first digit before the point.
int DigitAt(const Decimal& bound, int64_t index) {
  return index >= 0 && index < static_cast<int64_t>(bound.digits.size()) ? bound.digits[index] - '0'
                                                                         : 0;
}

uint64_t TimesPowerOfTen(uint64_t value, int64_t power, uint64_t modulus) {
  for (; power > 0 && value != 0; --power) value = value * 10 % modulus;
  return value;
}

}  // namespace

std::string NumberRules::Key() const {
  std::string key = Message(integer, not_integer, plain_integers);
  for (const Bound& bound : bounds)
    key += Message(" ", bound.bound.negative, bound.bound.digits, "^", bound.bound.point,
                   bound.less, bound.equal, bound.greater);
  for (const Multiple& multiple : multiples)
    key += Message("*", multiple.numerator, "/", multiple.scale, multiple.negated);
  return key;
}

NumberMachine::NumberMachine(const NumberRules& rules) : rules_(rules) {
  int64_t integer = rules_.integer && !rules_.plain_integers ? kMostBeforePoint + 1 : 0;
  int64_t fraction = 0;
  for (const auto& bound : rules_.bounds) {
    integer = std::max(integer, IntegerDigits(bound.bound) + 1);
    fraction = std::max(fraction, FractionDigits(bound.bound));
  }
  for (const auto& multiple : rules_.multiples)
    fraction = std::max<int64_t>(fraction, multiple.scale + 1);
  // Farther than any bound's first digit, the order is the same; a multiple of 10^14 is one of any
  // numerator that has no other prime factors than 2 and 5, and where it has, none is.
  for (const auto& bound : rules_.bounds)
    max_exponent_ = std::max<int32_t>(
        max_exponent_,
        static_cast<int32_t>(std::min<int64_t>(std::abs(bound.bound.point), 400)) + 2);
  for (const auto& multiple : rules_.multiples)
    max_exponent_ = std::max(max_exponent_, multiple.scale + 16);
  max_integer_ = static_cast<uint32_t>(integer);
  max_fraction_ = static_cast<uint32_t>(fraction);
  states_.emplace_back();  // kDead
  accepting_.push_back(false);
  State start;
  start.compare.resize(rules_.bounds.size());
  start.remainder.resize(rules_.multiples.size());
  start_ = Intern(start);
}

uint32_t NumberMachine::Intern(const State& state) {
  const auto [it, inserted] = ids_.try_emplace(state, static_cast<uint32_t>(states_.size()));
  if (inserted) {
    states_.push_back(state);
    accepting_.push_back(Accepts(state));
  }
  return it->second;
}

uint32_t NumberMachine::Step(uint32_t state, char c) {
  State next = states_[state];
  return Next(next, c) ? Intern(next) : kDead;
}

bool NumberMachine::Next(State& state, char c) const {
  switch (c) {
    case '-':
      if (state.phase == kStart) {
        state.phase = kSign;
        state.negative = true;
        return true;
      }
      [[fallthrough]];
    case '+':
      if (state.phase != kE) return false;
      state.phase = kESign;
      state.exponent_negative = c == '-';
      return true;
    case '.':
      return Point(state);
    case 'e':
    case 'E':
      return Exponent(state);
    default:
      return Digit(state, c - '0');
  }
}

void NumberMachine::Compare(State& state, int digit) const {
  for (size_t i = 0; i < rules_.bounds.size(); ++i) {
    if (state.compare[i] != 0) continue;
    const Decimal& bound = rules_.bounds[i].bound;
    int64_t index = state.num_integer;
    if (state.phase == kFraction) {
      index = bound.point + state.num_fraction;
      if (state.num_fraction >= max_fraction_ && digit == 0) continue;
    } else if (index >= IntegerDigits(bound)) {
      continue;  // it is longer, which EndInteger sees
    }
    const int other = DigitAt(bound, index);
    state.compare[i] = static_cast<int8_t>((digit > other) - (digit < other));
  }
}

void NumberMachine::EndInteger(State& state) const {
  for (size_t i = 0; i < rules_.bounds.size(); ++i) {
    const int64_t length = IntegerDigits(rules_.bounds[i].bound);
    if (state.num_integer != length) state.compare[i] = state.num_integer < length ? -1 : 1;
  }
  state.num_integer = 0;
}

bool NumberMachine::ExponentDigit(State& state, int digit) const {
  state.phase = kExponent;
  if (state.exponent_digits == 3) return false;
  if (looks_at_value()) {
    const int exponent = state.exponent_start * 10 + digit;
    const bool may_be_infinite = rules_.integer || rules_.not_integer;
    const int most = may_be_infinite && !state.is_one ? kMostExponent - 1 : kMostExponent;
    if (exponent > most && state.exponent_digits == 2) return false;
    state.exponent_start = static_cast<uint8_t>(std::min(exponent, 31));
  }
  ++state.exponent_digits;
  state.exponent = std::min(state.exponent * 10 + digit, max_exponent_);
  return true;
}

bool NumberMachine::Digit(State& state, int digit) const {
  switch (state.phase) {
    case kStart:
    case kSign:
      if (state.negative && digit == 0 && rules_.integer && rules_.plain_integers) return false;
      state.phase = digit == 0 ? kZero : kInteger;
      state.one_digit = digit != 0;
      state.is_one = digit == 1 && (rules_.integer || rules_.not_integer);
      break;
    case kInteger:
      state.one_digit = state.is_one = false;
      break;
    case kPoint:
      state.phase = kFraction;
      break;
    case kFraction:
      if (rules_.integer) return false;
      break;
    case kE:
    case kESign:
    case kExponent:
      return ExponentDigit(state, digit);
    case kZero:
      return false;
  }
  const bool fraction = state.phase == kFraction;
  if (fraction && rules_.integer && digit != 0) return false;
  Compare(state, digit);
  if (state.phase == kInteger && state.num_integer < max_integer_) ++state.num_integer;
  for (size_t i = 0; i < rules_.multiples.size(); ++i) {
    uint64_t& remainder = state.remainder[i];
    const auto& multiple = rules_.multiples[i];
    if (remainder == kNever) continue;
    if (fraction && state.num_fraction >= static_cast<uint32_t>(multiple.scale)) {
      if (digit != 0) remainder = kNever;
    } else {
      remainder = (remainder * 10 + static_cast<uint64_t>(digit)) % multiple.numerator;
    }
  }
  if (fraction) {
    if (state.num_fraction < max_fraction_) ++state.num_fraction;
    state.fraction_nonzero |= digit != 0;
    state.whole_spelling = false;
  }
  state.nonzero |= digit != 0;
  return true;
}

bool NumberMachine::Point(State& state) const {
  if (state.phase != kZero && state.phase != kInteger) return false;
  if (rules_.integer && (rules_.plain_integers || state.num_integer > kMostBeforePoint))
    return false;
  EndInteger(state);
  state.phase = kPoint;
  return true;
}

bool NumberMachine::Exponent(State& state) const {
  if (state.phase != kZero && state.phase != kInteger && state.phase != kFraction) return false;
  if (!looks_at_value()) {
    state.phase = kE;
    return true;
  }
  if (!state.one_digit || (looks_at_fraction() && !state.whole_spelling)) return false;
  if (rules_.integer && rules_.plain_integers) return false;
  state.compare.assign(state.compare.size(), 0);
  state.num_integer = state.num_fraction = 0;
  state.phase = kE;
  return true;
}

bool NumberMachine::CompareMagnitude(const State& state, size_t index, int* order) const {
  const Decimal& bound = rules_.bounds[index].bound;
  if (state.phase != kExponent) {
    *order = state.compare[index];
    if (*order == 0 && static_cast<int64_t>(state.num_fraction) < FractionDigits(bound))
      *order = -1;
    return true;
  }
  const int64_t point = 1 + (state.exponent_negative ? -state.exponent : state.exponent);
  *order = bound.is_zero() || point > bound.point ? 1 : -1;
  return bound.is_zero() || point != bound.point;
}

bool NumberMachine::InBounds(const State& state) const {
  for (size_t i = 0; i < rules_.bounds.size(); ++i) {
    const Decimal& bound = rules_.bounds[i].bound;
    int order = 0;
    if (!state.nonzero) {
      order = bound.is_zero() ? 0 : bound.negative ? 1 : -1;
    } else if (bound.is_zero() || state.negative != bound.negative) {
      order = state.negative ? -1 : 1;
    } else {
      if (!CompareMagnitude(state, i, &order)) return false;
      if (state.negative) order = -order;
    }
    const auto& rule = rules_.bounds[i];
    if (!(order < 0 ? rule.less : order > 0 ? rule.greater : rule.equal)) return false;
  }
  return true;
}

bool NumberMachine::IsMultiple(const State& state, size_t index) const {
  const uint64_t remainder = state.remainder[index];
  if (remainder == kNever) return false;
  const auto& multiple = rules_.multiples[index];
  int64_t power = multiple.scale - static_cast<int64_t>(state.num_fraction);
  if (state.phase == kExponent) {
    if (state.exponent_negative && state.exponent > multiple.scale) return false;
    power = multiple.scale + (state.exponent_negative ? -state.exponent : state.exponent);
  }
  return TimesPowerOfTen(remainder, power, multiple.numerator) == 0;
}

bool NumberMachine::IsWhole(const State& state) const {
  if (state.phase == kExponent) return !state.exponent_negative || state.exponent == 0;
  return !state.fraction_nonzero;
}

bool NumberMachine::Accepts(State state) const {
  if (state.phase == kZero || state.phase == kInteger) EndInteger(state);
  if (state.phase != kZero && state.phase != kInteger && state.phase != kFraction &&
      state.phase != kExponent)
    return false;
  if (rules_.integer && !IsWhole(state)) return false;
  if (rules_.not_integer && IsWhole(state)) return false;
  for (size_t i = 0; i < rules_.multiples.size(); ++i)
    if (IsMultiple(state, i) == rules_.multiples[i].negated) return false;
  return InBounds(state);
}

}  // namespace sluice
