#include "tests/gpu/emulator/machine/program.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice::cuda::emulator {
namespace {

constexpr auto kFamilies = {
    PrepareArithmetic, PrepareComparison, PrepareConversion,    PrepareControl, PrepareAccess,
    PrepareCopy,       PrepareBarrier,    PrepareWarpOperation, PrepareTiles,   PrepareWarpgroup};

bool Writes(const Instruction& instruction) {
  for (const char* const silent : {"st", "bra", "ret", "exit", "bar", "barrier", "cp", "fence",
                                   "griddepcontrol", "setmaxnreg", "wgmma", "call"}) {
    if (instruction.parts[0] == silent) return false;
  }
  return !instruction.registers.empty();
}

absl::Status Prepare(const Instruction& instruction, Step& step) {
  step.source = &instruction;
  step.r = instruction.registers.data();
  step.offset = instruction.offsets.data();
  step.has_guard = instruction.has_guard;
  step.guard_wanted = instruction.guard_wanted;
  step.guard = instruction.guard;
  step.target = instruction.target;
  if (Writes(instruction)) step.num_results = instruction.operand_sizes[0];
  const bool is_known = std::any_of(kFamilies.begin(), kFamilies.end(),
                                    [&](const auto prepare) { return prepare(instruction, step); });
  if (is_known) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("line ", instruction.line, ": ", instruction.text));
}

// Constants and special registers first, so that a thread begins with few registers to set.
void NumberPresetFirst(Function& function) {
  constexpr Register kNone = ~0u;
  std::vector<Register> number(function.num_registers, kNone);
  Register next = 0;
  number[kSink] = next++;
  for (auto& [constant, bits] : function.constants) constant = number[constant] = next++;
  for (auto& [name, special] : function.special) special = number[special] = next++;
  for (Register& one : number) {
    if (one == kNone) one = next++;
  }
  for (Register& one : function.parameters) one = number[one];
  for (Register& one : function.results) one = number[one];
  for (Instruction& instruction : function.instructions) {
    for (Register& one : instruction.registers) one = number[one];
    instruction.guard = number[instruction.guard];
  }
}

absl::Status PrepareAll(Program& program) {
  NumberPresetFirst(program.function);
  const Function& function = program.function;
  program.preset.resize(1 + function.constants.size() + function.special.size());
  for (const auto& [constant, bits] : function.constants) program.preset[constant] = bits;
  program.steps.resize(function.instructions.size());
  for (size_t i = 0; i < function.instructions.size(); ++i) {
    absl::Status status = Prepare(function.instructions[i], program.steps[i]);
    if (!status.ok()) return status;
    program.multiplies_asynchronously |= function.instructions[i].parts[0] == "wgmma";
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, std::unique_ptr<Program>>> ProgramsOf(Module&& module) {
  std::map<std::string, std::unique_ptr<Program>> programs;
  for (auto& [name, function] : module.functions) {
    auto program = std::make_unique<Program>();
    program->function = std::move(function);
    // What the text may end without.
    Instruction& last = program->function.instructions.emplace_back();
    last.parts = {last.text = "ret"};
    if (absl::Status status = PrepareAll(*program); !status.ok()) {
      return absl::UnimplementedError(absl::StrCat(name, ": ", status.message()));
    }
    programs[name] = std::move(program);
  }
  for (auto& [name, program] : programs) {
    for (size_t i = 0; i < program->function.instructions.size(); ++i) {
      const std::string& callee = program->function.instructions[i].callee;
      if (callee.empty()) continue;
      const auto found = programs.find(callee);
      if (found == programs.end()) {
        return absl::InvalidArgumentError(absl::StrCat(name, " calls ", callee, ": not there"));
      }
      program->steps[i].callee = found->second.get();
    }
  }
  return programs;
}

}  // namespace sluice::cuda::emulator
