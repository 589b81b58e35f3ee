// A function of PTX, with what each of its instructions does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/gpu/emulator/ptx/module.h"

namespace sluice::cuda::emulator {

struct Program;
struct Thread;
struct Warp;
struct Step;

// What one thread does by itself.
using Execute = void (*)(Thread& thread, const Step& step);
// What 32 do together, once all of them have come to it.
using ExecuteTogether = void (*)(Warp& warp, const Step& step);

struct Step {
  Execute execute = nullptr;
  ExecuteTogether together = nullptr;
  const Register* r = nullptr;      // operands, as Instruction::registers
  const int64_t* offset = nullptr;  // as Instruction::offsets
  bool has_guard = false;
  bool guard_wanted = true;
  Register guard = kSink;
  int target = -1;
  int num_results = 0;  // of the operands, the first are written
  bool is_relaxed = false;
  bool rounds_to_zero = false;
  // What the operation needs besides, by its own reading: bytes of an access, lanes, ...
  int size = 0;
  int count = 0;
  const Program* callee = nullptr;
  const Instruction* source = nullptr;
};

struct Program {
  Function function;
  std::vector<Step> steps;
  // Registers as a thread begins with them: constants, and room for special ones. The others are behind
  // them, and hold nothing.
  std::vector<uint64_t> preset;
  bool multiplies_asynchronously = false;  // it has wgmma: its registers are watched
};

// What an instruction does, as step.execute and together; false where it isn't known, or not for
// these types. One for each family.
bool PrepareArithmetic(const Instruction& instruction, Step& step);
bool PrepareComparison(const Instruction& instruction, Step& step);
bool PrepareConversion(const Instruction& instruction, Step& step);
bool PrepareControl(const Instruction& instruction, Step& step);
bool PrepareAccess(const Instruction& instruction, Step& step);
bool PrepareWarpOperation(const Instruction& instruction, Step& step);
bool PrepareCopy(const Instruction& instruction, Step& step);
bool PrepareBarrier(const Instruction& instruction, Step& step);
bool PrepareTiles(const Instruction& instruction, Step& step);
bool PrepareWarpgroup(const Instruction& instruction, Step& step);

// The programs of a module, by name. UNIMPLEMENTED names an instruction that is not known.
absl::StatusOr<std::map<std::string, std::unique_ptr<Program>>> ProgramsOf(Module&& module);

}  // namespace sluice::cuda::emulator
