#include "tests/gpu/emulator/tests/run_ptx.h"

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/ptx/parser.h"
#include "tests/gpu/emulator/runtime/overlaps.h"

namespace sluice::cuda::emulator::testing {
namespace {

std::string ModuleOf(const PtxLaunch& launch) {
  return absl::StrCat(R"(.version 9.0
.target sm_90a
.address_size 64
)",
                      launch.functions, R"(
.extern .shared .align 1024 .b8 s[];
.visible .entry kernel(.param .u64 kernel_param_0)
.maxntid 1024, 1, 1
{
  .reg .pred %p<20>;
  .reg .b16 %rs<20>;
  .reg .b32 %r<200>;
  .reg .b64 %rd<50>;
  .reg .f32 %f<200>;
  .reg .f64 %fd<20>;
  ld.param.u64 %rd1, [kernel_param_0];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
)",
                      launch.body, "\n  ret;\n}\n");
}

absl::Status CarryOutBody(const PtxLaunch& launch, uint32_t number, std::vector<uint32_t>& data,
                          Overlaps& overlaps, GlobalMemory& memory) {
  absl::StatusOr<Module> module = ParsePtx(ModuleOf(launch));
  if (!module.ok()) return module.status();
  auto programs = ProgramsOf(*std::move(module));
  if (!programs.ok()) return programs.status();
  LaunchRequest request;
  // What was counted is told by its steps.
  static auto& kept = *new std::vector<std::map<std::string, std::unique_ptr<Program>>>;
  kept.push_back(*std::move(programs));
  request.program = kept.back().at("kernel").get();
  request.blocks = launch.shape.blocks;
  request.threads = launch.shape.threads;
  request.cluster = launch.shape.cluster;
  request.shared_bytes = launch.shape.shared_bytes;
  const auto address = reinterpret_cast<uint64_t>(data.data());
  request.parameters.resize(sizeof(address));
  std::memcpy(request.parameters.data(), &address, sizeof(address));
  request.traffic = launch.traffic;
  const LaunchOrder order = overlaps.Begin(number, launch.may_overlap);
  GridDependence dependence;
  absl::Status status = CarryOut(request, order, memory, dependence);
  overlaps.End(order, dependence);
  return status;
}

}  // namespace

absl::Status RunPtx(const std::vector<PtxLaunch>& launches, std::vector<uint32_t>& data) {
  GlobalMemory memory;
  memory.Add(data.data(), data.size() * sizeof(uint32_t));
  Overlaps overlaps;
  uint32_t number = 0;
  for (const PtxLaunch& launch : launches) {
    absl::Status status = CarryOutBody(launch, ++number, data, overlaps, memory);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RunPtx(const std::string& body, std::vector<uint32_t>& data, const Shape& shape) {
  return RunPtx({{.body = body, .shape = shape}}, data);
}

std::string Registers(const std::string& family, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, i > 0 ? ", " : "", family, first + i);
  return text + "}";
}

}  // namespace sluice::cuda::emulator::testing
