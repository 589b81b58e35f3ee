// bra, call, ret, and what programs tell of the grids around them.
#include <string>

#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

void Branch(Thread& thread, const Step& step) { thread.next = step.target; }

void Enter(Thread& thread, const Program& program, size_t registers) {
  thread.program = &program;
  thread.registers = thread.stack.data() + registers;
}

void Call(Thread& thread, const Step& step) {
  const Program& callee = *step.callee;
  const size_t callers = thread.registers - thread.stack.data();
  const size_t begin = thread.stack.size();
  thread.callers.push_back({thread.program, thread.next, callers});
  thread.stack.insert(thread.stack.end(), callee.preset.begin(), callee.preset.end());
  thread.stack.resize(begin + callee.function.num_registers);
  for (size_t i = 0; i < callee.function.parameters.size(); ++i) {
    thread.stack[begin + callee.function.parameters[i]] =
        thread.stack[callers + step.r[step.count + i]];
  }
  Enter(thread, callee, begin);
  thread.next = 0;
}

void Return(Thread& thread, const Step&) {
  if (thread.callers.empty()) {
    thread.waits = Waits::kEnded;
    ++thread.block->num_ended;
    return;
  }
  const Frame caller = thread.callers.back();
  thread.callers.pop_back();
  const Step& call = caller.program->steps[caller.next - 1];
  const auto& results = thread.program->function.results;
  const size_t begin = thread.registers - thread.stack.data();
  for (size_t i = 0; i < results.size(); ++i) {
    thread.stack[caller.registers + call.r[i]] = thread.stack[begin + results[i]];
  }
  thread.stack.resize(begin);
  Enter(thread, *caller.program, caller.registers);
  thread.next = caller.next;
}

void WaitForGrids(Thread& thread, const Step&) { thread.has_waited_for_grids = true; }

void LaunchDependents(Thread& thread, const Step&) {
  if (!thread.has_waited_for_grids) thread.has_released_early = true;
}

}  // namespace

bool PrepareControl(const Instruction& instruction, Step& step) {
  const std::string& name = instruction.parts[0];
  if (name == "bra") {
    step.execute = Branch;
  } else if (name == "call") {
    step.execute = Call;
    step.count = instruction.num_results;
  } else if (name == "ret" || name == "exit") {
    step.execute = Return;
  } else if (name == "griddepcontrol") {
    step.execute = instruction.Has("wait") ? WaitForGrids : LaunchDependents;
  } else {
    return false;
  }
  return true;
}

}  // namespace sluice::cuda::emulator
