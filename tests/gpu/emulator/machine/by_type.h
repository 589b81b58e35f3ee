// Operations by the type that an instruction names.
#pragma once

#include <cstdint>
#include <string>

#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {

// make(T{}) of the integer of this name, or nullptr. Untyped bits count as unsigned.
template <class Make>
Execute ForInteger(const std::string& type, Make make) {
  if (type == "u8" || type == "b8") return make(uint8_t{});
  if (type == "s8") return make(int8_t{});
  if (type == "u16" || type == "b16") return make(uint16_t{});
  if (type == "s16") return make(int16_t{});
  if (type == "u32" || type == "b32") return make(uint32_t{});
  if (type == "s32") return make(int32_t{});
  if (type == "u64" || type == "b64") return make(uint64_t{});
  if (type == "s64") return make(int64_t{});
  return nullptr;
}

template <class Make>
Execute ForFloat(const std::string& type, Make make) {
  if (type == "f32") return make(float{});
  if (type == "f64") return make(double{});
  return nullptr;
}

template <class Make>
Execute ForNumber(const std::string& type, Make make) {
  const Execute integer = ForInteger(type, make);
  return integer != nullptr ? integer : ForFloat(type, make);
}

template <class T, class Operation>
void Unary(Thread& thread, const Step& step) {
  thread.Set<T>(step.r[0], static_cast<T>(Operation()(thread.Get<T>(step.r[1]))));
}

template <class T, class Operation>
void Binary(Thread& thread, const Step& step) {
  thread.Set<T>(step.r[0],
                static_cast<T>(Operation()(thread.Get<T>(step.r[1]), thread.Get<T>(step.r[2]))));
}

}  // namespace sluice::cuda::emulator
