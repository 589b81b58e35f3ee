// mov, selp, cvt, cvta.
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

template <class T>
void Move(Thread& thread, const Step& step) {
  thread.Set<T>(step.r[0], thread.Get<T>(step.r[1]));
}

template <class T>
void Select(Thread& thread, const Step& step) {
  thread.Set<T>(step.r[0], thread.Get<T>(thread.registers[step.r[3]] != 0 ? step.r[1] : step.r[2]));
}

// mov.b64 d, {a, b}: a is the low half.
void Join(Thread& thread, const Step& step) {
  const int bits = step.size / 2;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  thread.Set<uint64_t>(step.r[0], (thread.registers[step.r[1]] & mask) |
                                      (thread.registers[step.r[2]] & mask) << bits);
}
void Part(Thread& thread, const Step& step) {
  const int bits = step.size / 2;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const uint64_t whole = thread.registers[step.r[2]];
  thread.Set<uint64_t>(step.r[0], whole & mask);
  thread.Set<uint64_t>(step.r[1], whole >> bits & mask);
}

bool PrepareMove(const Instruction& instruction, Step& step) {
  const std::string& type = instruction.parts.back();
  if (instruction.registers.size() == 3) {
    step.size = type == "b64" ? 64 : type == "b32" ? 32 : 0;
    const bool joins = instruction.operand_sizes[0] == 1;
    step.execute = joins ? Join : Part;
    return step.size != 0;
  }
  step.execute = type == "pred"
                     ? Move<uint64_t>
                     : ForNumber(type, [](auto zero) -> Execute { return Move<decltype(zero)>; });
  return step.execute != nullptr;
}

template <class To, class From>
To RoundToInteger(From value, bool toward_zero) {
  if constexpr (std::is_integral_v<From>) {
    return static_cast<To>(value);
  } else {
    if (std::isnan(value)) return To{0};
    const double rounded = toward_zero ? std::trunc(double{value}) : std::nearbyint(double{value});
    constexpr auto kLeast = static_cast<double>(std::numeric_limits<To>::min());
    constexpr auto kMost = static_cast<double>(std::numeric_limits<To>::max());
    if (rounded <= kLeast) return std::numeric_limits<To>::min();
    if (rounded >= kMost) return std::numeric_limits<To>::max();
    return static_cast<To>(rounded);
  }
}

template <class To, class From>
void Convert(Thread& thread, const Step& step) {
  const From value = thread.Get<From>(step.r[1]);
  if constexpr (std::is_integral_v<To>) {
    thread.Set<To>(step.r[0], RoundToInteger<To>(value, step.rounds_to_zero));
  } else {
    thread.Set<To>(step.r[0], static_cast<To>(value));
  }
}

// cvt.sat.f32.f32: into [0, 1], NaN as 0.
void Saturate(Thread& thread, const Step& step) {
  const auto value = thread.Get<float>(step.r[1]);
  thread.Set<float>(step.r[0], value >= 1.0f ? 1.0f : value > 0.0f ? value : 0.0f);
}
template <class T>
void Truncate(Thread& thread, const Step& step) {
  thread.Set<T>(step.r[0], std::trunc(thread.Get<T>(step.r[1])));
}

// cvt.rn.bf16x2.f32 d, high, low.
void PackBFloat16(Thread& thread, const Step& step) {
  thread.Set<uint32_t>(step.r[0], ToBFloat16(thread.Get<float>(step.r[1])) << 16 |
                                      ToBFloat16(thread.Get<float>(step.r[2])));
}

Execute ConversionOf(const std::string& to, const std::string& from) {
  return ForNumber(to, [&](auto to_zero) {
    return ForNumber(from, [&](auto from_zero) -> Execute {
      return Convert<decltype(to_zero), decltype(from_zero)>;
    });
  });
}

bool PrepareCvt(const Instruction& instruction, Step& step) {
  const std::string& from = instruction.parts.back();
  const std::string& to = instruction.parts[instruction.parts.size() - 2];
  step.rounds_to_zero = instruction.Has("rzi");
  if (to == "bf16x2") {
    step.execute = from == "f32" && instruction.Has("rn") ? PackBFloat16 : nullptr;
  } else if (instruction.Has("sat")) {
    step.execute = to == "f32" && from == "f32" ? Saturate : nullptr;
  } else if (to == from && instruction.Has("rzi")) {
    step.execute = ForFloat(to, [](auto zero) -> Execute { return Truncate<decltype(zero)>; });
  } else {
    step.execute = ConversionOf(to, from);
  }
  return step.execute != nullptr;
}

}  // namespace

bool PrepareConversion(const Instruction& instruction, Step& step) {
  const std::string& name = instruction.parts[0];
  if (name == "mov") return PrepareMove(instruction, step);
  if (name == "cvt") return PrepareCvt(instruction, step);
  if (name == "selp") {
    step.execute = ForNumber(instruction.parts.back(),
                             [](auto zero) -> Execute { return Select<decltype(zero)>; });
    return step.execute != nullptr;
  }
  if (name == "cvta") {  // addresses of global memory are those of all memory
    step.execute = Move<uint64_t>;
    return instruction.Has("global");
  }
  return false;
}

}  // namespace sluice::cuda::emulator
