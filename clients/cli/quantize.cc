// `sluice quantize`: a model's folder with quantized weights, made from another.
#include "services/model/quantize.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/commands.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/outcome.h"
#include "kernels/usable_cpus.h"
#include "services/model/storage_type.h"

namespace sluice {
namespace {

struct QuantizeFlags {
  std::optional<std::string> model;
  std::optional<std::string> out;
  std::optional<WeightFormat> format;
  std::optional<int32_t> threads;
};

absl::Status SetFormat(const std::string& text, std::optional<WeightFormat>* into) {
  for (const WeightFormat format : QuantizedFormats()) {
    if (text == TypeName(format)) *into = format;
  }
  if (into->has_value()) return absl::OkStatus();
  // What a folder holds does not say how its products are made.
  const char* const hint =
      text == "fp8-w8a8" ? " (OUT with fp8 is served with --weights fp8-w8a8, too)" : "";
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\"; accepted: ", QuantizedTypeNames(", ", ", "), hint));
}

void AddQuantizeFlags(FlagSet& flags, QuantizeFlags* into) {
  flags.AddPositional(&into->model);
  flags.AddPositional(&into->out);
  flags.AddParsed(
      "weights", "TYPE",
      "int8, int8-g64 or fp8 (about half the size of bf16), or int4 (about three tenths).",
      [into](const std::string& text) { return SetFormat(text, &into->format); });
  flags.AddParsed("threads", "N", "Threads that quantize. Default: one per core.",
                  FlagSet::IntegerFrom(1, kMostThreads, &into->threads));
}

absl::Status CheckFlags(const QuantizeFlags& flags) {
  if (!flags.model.has_value() || !flags.out.has_value()) {
    return absl::InvalidArgumentError("give MODEL and OUT, the folders to read and to make");
  }
  if (flags.format.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("give --weights ", QuantizedTypeNames(", --weights ", " or --weights ")));
}

std::string SummaryText(const QuantizeFlags& flags, const QuantizeResult& result) {
  return absl::StrFormat("%s: %d matrices as %s, %d as bf16; %.1f MB of weights instead of %.1f MB",
                         *flags.out, result.num_quantized, TypeName(*flags.format), result.num_kept,
                         static_cast<double>(result.bytes_written) / 1e6,
                         static_cast<double>(result.bytes_read) / 1e6);
}

absl::StatusOr<QuantizeResult> Quantize(const QuantizeFlags& flags, Environment& environment) {
  std::atomic<bool> interrupted = false;
  const Interrupt::Handler handler(environment.interrupt, [&interrupted] { interrupted = true; });
  Progress progress(absl::StrCat("quantizing ", *flags.model));
  const int cores = UsableCpus();
  return QuantizeModel({.model = *flags.model,
                        .out = *flags.out,
                        .format = *flags.format,
                        .num_threads = flags.threads.value_or(cores),
                        .cancelled = [&interrupted] { return interrupted.load(); }},
                       &progress);
}

}  // namespace

int QuantizeCommand(absl::Span<const std::string> arguments, Environment& environment) {
  QuantizeFlags quantize_flags;
  FlagSet flags(
      "quantize", "[flags] MODEL OUT",
      "Writes the model of folder MODEL, a Hugging Face folder in F32, F16 or BF16, to the "
      "new folder OUT with quantized weights, which every command that takes --model "
      "serves. What --weights " +
          QuantizedTypeNames(", ", " or ") +
          " makes of MODEL while it is read has the same bits; OUT saves doing it again, and the "
          "space.");
  AddQuantizeFlags(flags, &quantize_flags);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (const absl::Status usage = CheckFlags(quantize_flags); !usage.ok()) {
    return FailUsage(flags.command(), usage, environment);
  }
  const absl::StatusOr<QuantizeResult> result = Quantize(quantize_flags, environment);
  if (!result.ok()) return Fail(result.status(), environment);
  environment.out << SummaryText(quantize_flags, *result) << "\n";
  return Succeed(environment);
}

}  // namespace sluice
