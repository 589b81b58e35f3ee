#include "tests/gpu/host/simt/fibre.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "kernels/check.h"

namespace sluice::cuda {
namespace {

constexpr size_t kGuardBytes = 4096;

}  // namespace

FibreStack::FibreStack() {
  void* const memory = mmap(nullptr, kGuardBytes + kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SLUICE_CHECK(memory != MAP_FAILED && mprotect(memory, kGuardBytes, PROT_NONE) == 0);
  memory_ = static_cast<std::byte*>(memory);
}

FibreStack::~FibreStack() { munmap(memory_, kGuardBytes + kBytes); }

}  // namespace sluice::cuda

// A switch saves what the calling convention says a callee must keep, and the stack pointer. (The
// C library's swapcontext also asks the kernel for the signal mask, which takes 50 times as long.)
#if defined(__x86_64__)
extern "C" void sluice_switch_fibre(void** from, void* to);
asm(R"(
.text
.p2align 4
.type sluice_switch_fibre, @function
sluice_switch_fibre:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sluice_switch_fibre, . - sluice_switch_fibre

.p2align 4
.type sluice_begin_fibre, @function
sluice_begin_fibre:
  movq %r12, %rdi
  callq *%rbx
  ud2
.size sluice_begin_fibre, . - sluice_begin_fibre
)");
extern "C" void sluice_begin_fibre();

namespace sluice::cuda {

FibreContext FibreStack::Begin(void (*run)(void*), void* argument) {
  auto* top = reinterpret_cast<void**>(memory_ + kGuardBytes + kBytes);
  *--top = reinterpret_cast<void*>(&sluice_begin_fibre);  // leaves the stack aligned to 16 bytes
  *--top = nullptr;                                       // rbp
  *--top = reinterpret_cast<void*>(run);                  // rbx
  *--top = argument;                                      // r12
  for (int i = 0; i < 3; ++i) *--top = nullptr;           // r13 to r15
  return {top};
}

void SwitchFibre(FibreContext& from, const FibreContext& to) {
  sluice_switch_fibre(&from.stack_pointer, to.stack_pointer);
}

}  // namespace sluice::cuda
#else
#include <ucontext.h>

namespace sluice::cuda {
namespace {

// Where a fibre begins; makecontext hands over ints alone.
void Enter(unsigned run_low, unsigned run_high, unsigned argument_low, unsigned argument_high) {
  const auto join = [](unsigned low, unsigned high) {
    return static_cast<uintptr_t>(uint64_t{high} << 32 | low);
  };
  reinterpret_cast<void (*)(void*)>(join(run_low, run_high))(
      reinterpret_cast<void*>(join(argument_low, argument_high)));
}

}  // namespace

// The context lies at the lower end of its own stack.
FibreContext FibreStack::Begin(void (*run)(void*), void* argument) {
  auto* const context = reinterpret_cast<ucontext_t*>(memory_ + kGuardBytes);
  getcontext(context);
  context->uc_stack.ss_sp = memory_ + kGuardBytes + sizeof(ucontext_t);
  context->uc_stack.ss_size = kBytes - sizeof(ucontext_t);
  const auto entry = reinterpret_cast<uint64_t>(run), value = reinterpret_cast<uint64_t>(argument);
  makecontext(context, reinterpret_cast<void (*)()>(Enter), 4, static_cast<unsigned>(entry),
              static_cast<unsigned>(entry >> 32), static_cast<unsigned>(value),
              static_cast<unsigned>(value >> 32));
  return {context};
}

void SwitchFibre(FibreContext& from, const FibreContext& to) {
  ucontext_t here;
  from.stack_pointer = &here;
  swapcontext(&here, static_cast<ucontext_t*>(to.stack_pointer));
}

}  // namespace sluice::cuda
#endif
