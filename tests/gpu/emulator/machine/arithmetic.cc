// add, mul, fma, min, logic, shifts, ...
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "tests/gpu/emulator/machine/by_type.h"
#include "tests/gpu/emulator/machine/numbers.h"
#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

// Integers wrap around.
template <class T>
using Wide =
    std::conditional_t<std::is_floating_point_v<T>, T,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>;

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Wide<T>(a) + Wide<T>(b));
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Wide<T>(a) - Wide<T>(b));
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Wide<T>(a) * Wide<T>(b));
  }
};
struct MultiplyHigh {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
  }
};
// What division by zero gives is not defined; all ones are easily seen.
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      return b == 0 ? static_cast<T>(~T{0}) : static_cast<T>(Wide<T>(a) / Wide<T>(b));
    }
  }
};
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    return b == 0 ? static_cast<T>(~T{0}) : static_cast<T>(Wide<T>(a) % Wide<T>(b));
  }
};
// Of a number and NaN, the number.
struct Least {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
    return a < b ? a : b;
  }
};
struct Most {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
    return a < b ? b : a;
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct ExclusiveOr {
  template <class T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct CopySign {  // of the first, to the second
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};

struct Not {
  template <class T>
  T operator()(T a) const {
    return ~a;
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(-Wide<T>(a));
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(a);
    return a < T{0} ? static_cast<T>(-Wide<T>(a)) : a;
  }
};
struct SquareRootOf {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return T{1} / a;
  }
};
float FlushToZero(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
struct ReciprocalFlushed {
  float operator()(float a) const { return FlushToZero(1.0f / FlushToZero(a)); }
  // The upper half of the bits, by its documentation.
  double operator()(double a) const {
    return std::bit_cast<double>(std::bit_cast<uint64_t>(1.0 / a) & ~uint64_t{0xffffffff});
  }
};
struct PowerOfTwo {
  float operator()(float a) const { return std::exp2(a); }
};
struct PowerOfTwoFlushed {
  float operator()(float a) const { return FlushToZero(std::exp2(FlushToZero(a))); }
};

// Both operands' amounts are U32; more than the width shifts all out.
template <class T>
void ShiftLeft(Thread& thread, const Step& step) {
  const auto by = thread.Get<uint32_t>(step.r[2]);
  const auto value = static_cast<std::make_unsigned_t<T>>(thread.Get<T>(step.r[1]));
  thread.Set<T>(step.r[0], by >= 8 * sizeof(T) ? T{0} : static_cast<T>(uint64_t{value} << by));
}
template <class T>
void ShiftRight(Thread& thread, const Step& step) {
  const auto by = thread.Get<uint32_t>(step.r[2]);
  const T value = thread.Get<T>(step.r[1]);
  const T all_out = value < T{0} ? static_cast<T>(~T{0}) : T{0};
  thread.Set<T>(step.r[0], by >= 8 * sizeof(T) ? all_out : static_cast<T>(value >> by));
}

template <class T>
void MultiplyWide(Thread& thread, const Step& step) {
  using Twice =
      std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                         std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
  thread.Set<Twice>(step.r[0], static_cast<Twice>(thread.Get<T>(step.r[1])) *
                                   static_cast<Twice>(thread.Get<T>(step.r[2])));
}
template <class T>
void MultiplyAndAdd(Thread& thread, const Step& step) {
  thread.Set<T>(step.r[0], Add()(Multiply()(thread.Get<T>(step.r[1]), thread.Get<T>(step.r[2])),
                                 thread.Get<T>(step.r[3])));
}

template <class T>
void FuseMultiplyAdd(Thread& thread, const Step& step) {
  thread.Set<T>(step.r[0], std::fma(thread.Get<T>(step.r[1]), thread.Get<T>(step.r[2]),
                                    thread.Get<T>(step.r[3])));
}
// Rounds down.
template <class T>
void FuseMultiplyAddDown(Thread& thread, const Step& step) {
  const volatile T a = thread.Get<T>(step.r[1]), b = thread.Get<T>(step.r[2]),
                   c = thread.Get<T>(step.r[3]);
  const int before = std::fegetround();
  std::fesetround(FE_DOWNWARD);
  const volatile T result = std::fma(a, b, c);
  std::fesetround(before);
  thread.Set<T>(step.r[0], result);
}

// Products of BF16 numbers are exact in F32, sums with a third are in F64.
uint32_t FuseBFloat16(uint32_t a, uint32_t b, uint32_t c) {
  const double exact = double{FromBFloat16(a)} * FromBFloat16(b) + FromBFloat16(c);
  // To odd in F32, then to nearest in BF16: rounded once.
  auto near = static_cast<float>(exact);
  if (double{near} != exact && std::isfinite(near)) {
    if (std::fabs(double{near}) > std::fabs(exact)) near = std::nextafter(near, 0.0f);
    near = std::bit_cast<float>(std::bit_cast<uint32_t>(near) | 1);
  }
  return ToBFloat16(near);
}
void FuseBFloat16Pairs(Thread& thread, const Step& step) {
  uint32_t pair = 0;
  for (int half = 0; half < 2; ++half) {
    const auto part = [&](int operand) {
      return thread.Get<uint32_t>(step.r[operand]) >> (16 * half);
    };
    pair |= FuseBFloat16(part(1), part(2), part(3)) << (16 * half);
  }
  thread.Set<uint32_t>(step.r[0], pair);
}

void CountOnes(Thread& thread, const Step& step) {
  thread.Set<uint32_t>(step.r[0], std::popcount(thread.Get<uint32_t>(step.r[1])));
}

// prmt.b32 d, a, b, c: each nibble of c chooses a byte of {b, a}, or its sign.
void PermuteBytes(Thread& thread, const Step& step) {
  const uint64_t bytes =
      uint64_t{thread.Get<uint32_t>(step.r[2])} << 32 | thread.Get<uint32_t>(step.r[1]);
  const auto chosen = thread.Get<uint32_t>(step.r[3]);
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t selector = chosen >> (4 * i) & 0xf;
    uint32_t byte = bytes >> (8 * (selector & 7)) & 0xff;
    if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  thread.Set<uint32_t>(step.r[0], result);
}

// bfi.b32 d, a, b, position, length: the low bits of a, in b.
void InsertBits(Thread& thread, const Step& step) {
  const auto a = thread.Get<uint32_t>(step.r[1]), b = thread.Get<uint32_t>(step.r[2]);
  const uint32_t position = thread.Get<uint32_t>(step.r[3]) & 0xff;
  const uint32_t length = thread.Get<uint32_t>(step.r[4]) & 0xff;
  const uint64_t mask =
      position >= 32 ? 0 : ((length >= 32 ? ~0u : (1u << length) - 1) * (uint64_t{1} << position));
  const auto mask32 = static_cast<uint32_t>(mask);
  thread.Set<uint32_t>(step.r[0],
                       (b & ~mask32) | (static_cast<uint32_t>(uint64_t{a} << position) & mask32));
}

// ---- By name ----

template <class Operation>
Execute BinaryBy(const std::string& type) {
  return ForNumber(type, [](auto zero) -> Execute { return Binary<decltype(zero), Operation>; });
}
template <class Operation>
Execute BinaryInteger(const std::string& type) {
  return ForInteger(type, [](auto zero) -> Execute { return Binary<decltype(zero), Operation>; });
}
template <class Operation>
Execute UnaryBy(const std::string& type) {
  return ForNumber(type, [](auto zero) -> Execute { return Unary<decltype(zero), Operation>; });
}
template <class Operation>
Execute UnaryFloat(const std::string& type) {
  return ForFloat(type, [](auto zero) -> Execute { return Unary<decltype(zero), Operation>; });
}

template <class Operation>
Execute Logic(const std::string& type) {
  if (type == "pred") return Binary<uint64_t, Operation>;
  return BinaryInteger<Operation>(type);
}

Execute LogicOf(const std::string& name, const std::string& type) {
  if (name == "and") return Logic<And>(type);
  if (name == "or") return Logic<Or>(type);
  if (name == "xor") return Logic<ExclusiveOr>(type);
  if (name == "not" && type == "pred") {
    return [](Thread& thread, const Step& step) {
      thread.Set<uint64_t>(step.r[0], thread.registers[step.r[1]] == 0 ? 1 : 0);
    };
  }
  if (name == "not") {
    return ForInteger(type, [](auto zero) -> Execute { return Unary<decltype(zero), Not>; });
  }
  if (name == "shl") {
    return ForInteger(type, [](auto zero) -> Execute { return ShiftLeft<decltype(zero)>; });
  }
  if (name == "shr") {
    return ForInteger(type, [](auto zero) -> Execute { return ShiftRight<decltype(zero)>; });
  }
  if (name == "popc") return CountOnes;
  if (name == "prmt") return PermuteBytes;
  if (name == "bfi" && type == "b32") return InsertBits;
  return nullptr;
}

Execute MultiplicationOf(const Instruction& instruction, const std::string& type) {
  if (instruction.Has("wide")) {
    if (type == "u16") return MultiplyWide<uint16_t>;
    if (type == "u32") return MultiplyWide<uint32_t>;
    if (type == "s32") return MultiplyWide<int32_t>;
    return nullptr;
  }
  if (instruction.Has("hi")) return BinaryInteger<MultiplyHigh>(type);
  return BinaryBy<Multiply>(type);
}

Execute FusedOf(const Instruction& instruction, const std::string& type) {
  if (type == "bf16x2") return FuseBFloat16Pairs;
  if (instruction.Has("rm")) {
    return ForFloat(type, [](auto zero) -> Execute { return FuseMultiplyAddDown<decltype(zero)>; });
  }
  if (!instruction.Has("rn")) return nullptr;
  return ForFloat(type, [](auto zero) -> Execute { return FuseMultiplyAdd<decltype(zero)>; });
}

Execute ArithmeticOf(const Instruction& instruction) {
  const std::string& name = instruction.parts[0];
  const std::string& type = instruction.parts.back();
  if (name == "add") return BinaryBy<Add>(type);
  if (name == "sub") return BinaryBy<Subtract>(type);
  if (name == "mul") return MultiplicationOf(instruction, type);
  if (name == "mad") {
    return ForInteger(type, [](auto zero) -> Execute { return MultiplyAndAdd<decltype(zero)>; });
  }
  if (name == "fma") return FusedOf(instruction, type);
  if (name == "div") return BinaryBy<Divide>(type);
  if (name == "rem") return BinaryInteger<Remainder>(type);
  if (name == "min") return BinaryBy<Least>(type);
  if (name == "max") return BinaryBy<Most>(type);
  if (name == "neg") return UnaryBy<Negate>(type);
  if (name == "abs") return UnaryBy<Absolute>(type);
  if (name == "copysign") {
    return ForFloat(type, [](auto zero) -> Execute { return Binary<decltype(zero), CopySign>; });
  }
  if (name == "sqrt" && instruction.Has("rn")) return UnaryFloat<SquareRootOf>(type);
  if (name == "rcp" && instruction.Has("rn")) return UnaryFloat<Reciprocal>(type);
  if (name == "rcp" && instruction.Has("ftz")) return UnaryFloat<ReciprocalFlushed>(type);
  if (name == "ex2" && type == "f32") {
    return instruction.Has("ftz") ? Unary<float, PowerOfTwoFlushed> : Unary<float, PowerOfTwo>;
  }
  return LogicOf(name, type);
}

}  // namespace

bool PrepareArithmetic(const Instruction& instruction, Step& step) {
  step.execute = ArithmeticOf(instruction);
  return step.execute != nullptr;
}

}  // namespace sluice::cuda::emulator
