// ld, st, atom.
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/machine/by_type.h"
#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

constexpr size_t kMostBytes = 32;

// What was read, a number of step.size bytes for each register; signed ones are extended.
template <class T>
void SetAll(Thread& thread, const Step& step, const std::byte* bytes) {
  for (int i = 0; i < step.count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      thread.Set<int64_t>(step.r[i], value);
    } else {
      thread.Set<T>(step.r[i], value);
    }
  }
}

std::string NoteGlobal(const Thread& thread, const Step& step, GlobalMemory::Access access,
                       uint64_t address, size_t bytes) {
  NoteTraffic(thread, step, Space::kGlobal, address, bytes);
  return thread.block->cluster->memory->Note(access, address, bytes, bytes,
                                             thread.global_accessor());
}

template <class T>
void LoadGlobal(Thread& thread, const Step& step) {
  const uint64_t address = thread.Address(step, step.count);
  const std::string wrong =
      NoteGlobal(thread, step, GlobalMemory::Access::kRead, address, step.count * sizeof(T));
  if (!wrong.empty()) return thread.Fault(wrong);
  SetAll<T>(thread, step, reinterpret_cast<const std::byte*>(address));
}

template <class T>
void LoadShared(Thread& thread, const Step& step) {
  std::byte data[kMostBytes];
  const size_t bytes = step.count * sizeof(T);
  NoteTraffic(thread, step, Space::kShared, thread.SharedAddress(step, step.count), bytes);
  const std::string wrong = thread.block->shared->Read(thread.SharedAddress(step, step.count),
                                                       bytes, bytes, thread.accessor(), data);
  if (!wrong.empty()) return thread.Fault(wrong);
  SetAll<T>(thread, step, data);
}

template <class T>
void LoadParameter(Thread& thread, const Step& step) {
  const std::vector<std::byte>& parameters = *thread.block->cluster->parameters;
  const uint64_t offset = thread.Address(step, step.count) - kParameterBase;
  const size_t bytes = step.count * sizeof(T);
  if (offset + bytes > parameters.size() || offset % bytes != 0) {
    return thread.Fault(
        absl::StrCat("byte ", offset, " of ", parameters.size(), " bytes of parameters"));
  }
  SetAll<T>(thread, step, parameters.data() + offset);
}

template <class T>
void GetAll(const Thread& thread, const Step& step, std::byte* bytes) {
  for (int i = 0; i < step.count; ++i) {
    const T value = thread.Get<T>(step.r[1 + i]);
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
void StoreGlobal(Thread& thread, const Step& step) {
  const uint64_t address = thread.Address(step, 0);
  const auto access =
      step.is_relaxed ? GlobalMemory::Access::kRelaxedWrite : GlobalMemory::Access::kWrite;
  const std::string wrong = NoteGlobal(thread, step, access, address, step.count * sizeof(T));
  if (!wrong.empty()) return thread.Fault(wrong);
  GetAll<T>(thread, step, reinterpret_cast<std::byte*>(address));
}

template <class T>
void StoreShared(Thread& thread, const Step& step) {
  std::byte data[kMostBytes];
  GetAll<T>(thread, step, data);
  const size_t bytes = step.count * sizeof(T);
  NoteTraffic(thread, step, Space::kShared, thread.SharedAddress(step, 0), bytes);
  thread.Fault(thread.block->shared->Write(thread.SharedAddress(step, 0), bytes, bytes,
                                           thread.accessor(), data));
}

void AddGlobal(Thread& thread, const Step& step) {
  const uint64_t address = thread.Address(step, 1);
  const std::string wrong =
      NoteGlobal(thread, step, GlobalMemory::Access::kAtomic, address, sizeof(uint32_t));
  if (!wrong.empty()) return thread.Fault(wrong);
  auto* const value = reinterpret_cast<uint32_t*>(address);
  const uint32_t before = *value;
  *value += thread.Get<uint32_t>(step.r[2]);
  thread.Set<uint32_t>(step.r[0], before);
}

void AddShared(Thread& thread, const Step& step) {
  uint32_t before = 0;
  thread.Fault(thread.block->shared->Atomic(thread.SharedAddress(step, 1), thread.accessor(),
                                            thread.Get<uint32_t>(step.r[2]), &before));
  thread.Set<uint32_t>(step.r[0], before);
}

bool PrepareLoad(const Instruction& instruction, Step& step) {
  const bool shared = instruction.Has("shared"), parameter = instruction.Has("param");
  if (!shared && !parameter && !instruction.Has("global")) return false;
  step.count = instruction.operand_sizes[0];
  step.execute = ForNumber(instruction.parts.back(), [&](auto zero) -> Execute {
    using T = decltype(zero);
    return shared ? LoadShared<T> : parameter ? LoadParameter<T> : LoadGlobal<T>;
  });
  return step.execute != nullptr;
}

bool PrepareStore(const Instruction& instruction, Step& step) {
  const bool shared = instruction.Has("shared");
  if (!shared && !instruction.Has("global")) return false;
  step.count = instruction.operand_sizes[1];
  step.is_relaxed = instruction.Has("relaxed");
  step.execute = ForNumber(instruction.parts.back(), [&](auto zero) -> Execute {
    using T = decltype(zero);
    return shared ? StoreShared<T> : StoreGlobal<T>;
  });
  return step.execute != nullptr;
}

}  // namespace

bool PrepareAccess(const Instruction& instruction, Step& step) {
  const std::string& name = instruction.parts[0];
  if (name == "ld") return PrepareLoad(instruction, step);
  if (name == "st") return PrepareStore(instruction, step);
  if (name == "atom" && instruction.Has("add") && instruction.parts.back() == "u32") {
    step.execute = instruction.Has("shared") ? AddShared : AddGlobal;
    return true;
  }
  return false;
}

}  // namespace sluice::cuda::emulator
