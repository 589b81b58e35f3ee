// PTX as it was read: functions whose operands are numbered registers (PTX ISA 9.0).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cuda::emulator {

// Which of a function's registers. Constants, addresses of variables and special registers have one
// each, too: an operand is always a register.
using Register = uint32_t;

// Where results go that nobody asked for: `_`.
constexpr Register kSink = 0;

// Dynamic shared memory begins here: not at 0, where a wrong base would go unnoticed. NVIDIA's
// Hopper keeps the first KiB for itself.
constexpr uint64_t kSharedBase = 1024;
// A kernel's parameters, as addresses of their own space.
constexpr uint64_t kParameterBase = uint64_t{1} << 60;

struct Instruction {
  std::vector<std::string> parts;   // "ld.global.v4.u32", parted at its dots
  std::vector<Register> registers;  // of all operands, in the order of the text
  std::vector<int64_t> offsets;     // [register + offset], by register; else 0
  std::vector<int> operand_sizes;   // how many registers each operand has: 4 for {a, b, c, d}
  bool has_guard = false;           // @%p or @!%p
  bool guard_wanted = true;
  Register guard = kSink;
  int target = -1;      // bra: the instruction gone to
  std::string callee;   // call
  int num_results = 0;  // call: how many of `registers` the callee fills; they come first
  int line = 0;         // of the text
  std::string text;

  bool Has(const char* part) const;
};

struct Function {
  std::string name;
  std::vector<Register> parameters;  // not of kernels: theirs are bytes at kParameterBase
  std::vector<Register> results;
  size_t parameter_bytes = 0;  // of a kernel
  int max_threads = 1024;      // .maxntid
  Register num_registers = 1;  // with the sink
  std::vector<std::pair<Register, uint64_t>> constants;
  std::map<std::string, Register> special;  // by name: "%tid.x"
  std::vector<Instruction> instructions;
};

struct Module {
  std::map<std::string, Function> functions;
};

}  // namespace sluice::cuda::emulator
