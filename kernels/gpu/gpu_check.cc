#include "kernels/gpu/gpu_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

constexpr char kInstead[] = "; --device cpu computes without one";

std::string VisibleText(const DriverFacts& facts) {
  if (facts.visible_devices.empty()) return "";
  return absl::StrCat(" (CUDA_VISIBLE_DEVICES is ", facts.visible_devices, ")");
}

// How the GPUs that there are may be called.
std::string AcceptedText(size_t count) {
  if (count == 1) return "cuda:0";
  return absl::StrCat("cuda:0 to cuda:", count - 1);
}

absl::Status CheckDriver(const DriverFacts& facts) {
  if (facts.driver_version == 0) {
    return absl::UnavailableError(
        absl::StrCat("no GPU: the NVIDIA driver is not installed here (libcuda.so.1 could not be "
                     "loaded, or it did not say its version)",
                     kInstead));
  }
  // Programs of one major version run on every driver of it.
  if (facts.driver_version / 1000 < facts.runtime_version / 1000) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the NVIDIA driver is too old: it serves CUDA up to ",
        CudaVersionText(facts.driver_version), ", and this program was built with CUDA ",
        CudaVersionText(facts.runtime_version), ", which needs a driver for CUDA ",
        facts.runtime_version / 1000, ".0 or later", kInstead));
  }
  return absl::OkStatus();
}

absl::Status CheckOne(const GpuFacts& gpu, int index) {
  const std::string which = absl::StrCat("cuda:", index, ", ", GpuText(gpu), ",");
  if (gpu.compute_major < kLeastComputeMajor) {
    return absl::FailedPreconditionError(
        absl::StrCat(which, " is too old: the kernels need compute capability ", kLeastComputeMajor,
                     ".0 or later", kInstead));
  }
  if (!gpu.refusal.empty()) {
    return absl::UnavailableError(absl::StrCat(which, " refuses this process: ", gpu.refusal));
  }
  return absl::OkStatus();
}

// "mma, wgmma".
std::string NamesOf(const std::vector<GpuProducts>& products) {
  return absl::StrJoin(products, ", ",
                       [](std::string* out, GpuProducts one) { out->append(Name(one)); });
}

}  // namespace

std::string CudaVersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

std::string UuidText(const GpuUuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x", static_cast<unsigned>(uuid[i]));
  }
  return text;
}

std::string GpuText(const GpuFacts& gpu) {
  return absl::StrFormat("%s (compute capability %d.%d, %.1f GiB, %d multiprocessors)", gpu.name,
                         gpu.compute_major, gpu.compute_minor,
                         static_cast<double>(gpu.total_bytes) / (uint64_t{1} << 30),
                         gpu.num_multiprocessors);
}

std::string Name(GpuProducts products) {
  switch (products) {
    case GpuProducts::kPortable:
      return "mma";
    case GpuProducts::kHopper:
      return "wgmma";
    case GpuProducts::kPipelined:
      return "wgmma_pipeline";
    case GpuProducts::kFp8:
      return "wgmma_fp8";
  }
  return "";
}

absl::StatusOr<std::optional<GpuProducts>> ParseGpuProducts(const std::string& text) {
  const std::vector<GpuProducts> all = {GpuProducts::kPortable, GpuProducts::kHopper,
                                        GpuProducts::kPipelined, GpuProducts::kFp8};
  if (text == "auto") return std::nullopt;
  for (const GpuProducts products : all) {
    if (text == Name(products)) return products;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no instruction of GPUs; accepted: auto, ", NamesOf(all)));
}

std::vector<GpuProducts> ProductsOf(const GpuFacts& gpu) {
  std::vector<GpuProducts> products = {GpuProducts::kPortable};
  if (gpu.compute_major == 9 && gpu.compute_minor == 0) {
    products.push_back(GpuProducts::kHopper);
    products.push_back(GpuProducts::kPipelined);
    products.push_back(GpuProducts::kFp8);
  }
  return products;
}

absl::StatusOr<std::vector<GpuProducts>> ProductsUpTo(const GpuFacts& gpu,
                                                      std::optional<GpuProducts> fastest) {
  std::vector<GpuProducts> products = ProductsOf(gpu);
  if (!fastest.has_value()) return products;
  const auto last = std::find(products.begin(), products.end(), *fastest);
  if (last == products.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(GpuText(gpu), " has no ", Name(*fastest), "; accepted: ", NamesOf(products)));
  }
  products.erase(last + 1, products.end());
  return products;
}

absl::Status CheckGpu(const DriverFacts& facts, int index) {
  if (absl::Status driver = CheckDriver(facts); !driver.ok()) return driver;
  if (facts.gpus.empty()) {
    const std::string why = facts.failure.empty() ? "" : absl::StrCat(", and says ", facts.failure);
    return absl::NotFoundError(absl::StrCat("no GPU: the driver (CUDA ",
                                            CudaVersionText(facts.driver_version), ") finds none",
                                            VisibleText(facts), why, kInstead));
  }
  if (index < 0 || index >= static_cast<int>(facts.gpus.size())) {
    return absl::NotFoundError(absl::StrCat("there is no cuda:", index, ": this machine shows ",
                                            facts.gpus.size(), " GPU",
                                            facts.gpus.size() == 1 ? "" : "s", VisibleText(facts),
                                            "; accepted: ", AcceptedText(facts.gpus.size())));
  }
  return CheckOne(facts.gpus[index], index);
}

}  // namespace sluice
