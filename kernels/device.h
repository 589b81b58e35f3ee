// Chooses among the kinds of devices that this build has. Nothing above kernels/ knows which it
// got.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"

namespace sluice {

enum class DeviceKind { kCpu };

// "cpu".
std::string_view Name(DeviceKind kind);

// "cpu", or "cuda" or "cuda:1" for the first or second GPU. INVALID_ARGUMENT where it is neither,
// or where this build lacks that kind of device, naming those that it has.
absl::StatusOr<DeviceKind> ParseDevice(const std::string& text);

struct DeviceOptions {
  DeviceKind kind = DeviceKind::kCpu;
  CpuBackendOptions cpu;
};

// A backend that has passed its self-check on this machine (kernels/self_check.h). On CPU, where
// the instructions asked for, or the fastest, don't, the next ones below are taken, and `warn` is
// told why. INTERNAL where none does; otherwise the status of a device that can't be used.
// Thread-safe; instructions are checked once a process.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    const DeviceOptions& options, absl::FunctionRef<void(const std::string& reason)> warn);

// The last of `sets`, which get faster, that `check` lets pass; tells `warn` of those that it does
// not. The last failure where there is none.
absl::StatusOr<InstructionSet> ChooseInstructions(
    absl::Span<const InstructionSet> sets, absl::FunctionRef<absl::Status(InstructionSet)> check,
    absl::FunctionRef<void(const std::string& reason)> warn);

}  // namespace sluice
