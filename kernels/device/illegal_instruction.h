// Code that may hold instructions which this processor, or the machine that it pretends to be, does
// not carry out.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace sluice {

// Returns what `run` returns, or UNIMPLEMENTED where this thread meets an illegal instruction in
// it: then whatever `run` was about stays as it was at that moment, and what it owns is lost. So it
// owns little, holds no lock and starts no threads. One thread at a time.
absl::Status CatchIllegalInstruction(absl::FunctionRef<absl::Status()> run);

}  // namespace sluice
