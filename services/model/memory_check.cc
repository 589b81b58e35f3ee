#include "services/model/memory_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/usable_memory.h"

namespace sluice {
namespace {

std::string Mebibytes(uint64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string WhatWouldFit(const KeptMemory& kept, uint64_t limit_bytes) {
  const std::string more =
      absl::StrCat("a limit of more than ", Mebibytes(kept.weight_bytes + kept.kv_bytes));
  const uint64_t left = limit_bytes > kept.weight_bytes ? limit_bytes - kept.weight_bytes : 0;
  if (kept.kv_bytes > 0 && left >> 20 > 0) {
    return absl::StrCat(more, ", or --kv_cache_mib of less than ", left >> 20);
  }
  return absl::StrCat(more,
                      ", smaller --weights, or more ranks or stages, each with a limit of its own");
}

}  // namespace

absl::Status CheckFits(const KeptMemory& kept, uint64_t limit_bytes) {
  if (kept.weight_bytes + kept.kv_bytes <= limit_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      kept.who, " does not fit: ", Mebibytes(kept.weight_bytes), " of weights and ",
      Mebibytes(kept.kv_bytes), " of keys and values, where the memory limit of this container is ",
      Mebibytes(limit_bytes), "; accepted: ", WhatWouldFit(kept, limit_bytes)));
}

absl::Status CheckFitsHost(const WeightSource& source, WeightType weights,
                           absl::FunctionRef<KeptMemory(WeightFormat)> kept) {
  const absl::StatusOr<WeightFormat> format = source.Resolve(weights);
  if (!format.ok()) return format.status();
  return CheckFits(kept(*format), MemoryLimit(""));
}

}  // namespace sluice
