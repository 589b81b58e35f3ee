#include "tests/kernels/expert_benchmark.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/expert_ops.h"
#include "tests/kernels/ceilings.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

constexpr int kTurns = 7;
constexpr size_t kDrawnRows = 61;  // of which all matrices are made: drawing them all takes minutes

// The matrix of each expert: [outputs, inputs].
ExpertMatrices PackExperts(Backend& backend, int num_experts, const PackSpec& spec) {
  Random random(1);
  const HostMatrix drawn = RandomMatrix(random, kDrawnRows, spec.num_inputs);
  const size_t row_bytes = RowBytes(spec.format.weights, spec.num_inputs);
  std::vector<std::byte> encoded(kDrawnRows * row_bytes);
  for (size_t row = 0; row < kDrawnRows; ++row) {
    EncodeRow(spec.format.weights,
              absl::MakeSpan(drawn.values).subspan(row * spec.num_inputs, spec.num_inputs),
              absl::MakeSpan(encoded).subspan(row * row_bytes, row_bytes));
  }
  std::vector<std::unique_ptr<PackedMatrix>> matrices;
  for (int expert = 0; expert < num_experts; ++expert) {
    auto packed = backend.Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
      for (int64_t row = begin; row < end; ++row, out.remove_prefix(row_bytes)) {
        std::memcpy(out.data(), encoded.data() + (row + expert) % kDrawnRows * row_bytes,
                    row_bytes);
      }
      return absl::OkStatus();
    });
    SLUICE_CHECK(packed.ok());
    matrices.push_back(*std::move(packed));
  }
  return ExpertMatrices(std::move(matrices));
}

// Memory of a routing, on the host.
struct RoutingMemory {
  RoutingMemory(int64_t rows, int num_experts, int num_chosen)
      : bytes(Routing::SizeBytes(rows, num_experts, num_chosen)),
        routing(Routing::In(bytes.data(), rows, num_experts, num_chosen)) {}
  RoutingMemory(RoutingMemory&&) = default;  // what is moved stays where it is

  std::vector<std::byte> bytes;
  const Routing routing;
};

// Of rows that lie in the order of their experts, as many of each expert as `of` has.
RoutingMemory GroupedAlready(const Routing& of, int64_t num_grouped) {
  RoutingMemory memory(num_grouped, of.num_experts, /*num_chosen=*/1);
  std::copy_n(of.first, of.num_experts + 1, memory.routing.first);
  std::iota(memory.routing.rows, memory.routing.rows + num_grouped, 0);
  std::copy_n(of.weights, num_grouped, memory.routing.weights);
  std::iota(memory.routing.grouped, memory.routing.grouped + num_grouped, 0);
  return memory;
}

}  // namespace

void MeasureExperts(Backend& backend, const MixtureShape& shape, WeightFormat format, int64_t rows,
                    int num_threads, OutputFormat output) {
  ExpertOps* const experts = backend.experts();
  SLUICE_CHECK(experts != nullptr);
  const int64_t grouped = rows * shape.num_chosen;
  const ExpertMatrices gate_up = PackExperts(backend, shape.num_experts,
                                             {.num_outputs = 2 * shape.width,
                                              .num_inputs = shape.hidden,
                                              .format = format,
                                              .gated = true});
  const ExpertMatrices down =
      PackExperts(backend, shape.num_experts,
                  {.num_outputs = shape.hidden, .num_inputs = shape.width, .format = format});
  Random random(2);
  const auto router = Pack(backend, RandomMatrix(random, shape.num_experts, shape.hidden),
                           {.format = WeightFormat::kF32});
  const HostMatrix drawn = RandomMatrix(random, rows, shape.hidden);
  const DeviceMatrix x(backend, drawn), scores(backend, rows, shape.num_experts);
  const DeviceMatrix inner(backend, grouped, shape.width), out(backend, rows, shape.hidden);
  RoutingMemory routing(rows, shape.num_experts, shape.num_chosen);
  const RouteParams params{.num_chosen = shape.num_chosen, .normalised = true};
  experts->ReserveForExperts(gate_up, down, nullptr, shape.num_chosen, grouped);
  const auto step = [&] {
    backend.Gemm(x.view(), *router, scores.view(), {});
    experts->Route(scores.view(), params, routing.routing);
    experts->GroupedGemm(x.view(), gate_up, routing.routing, {}, inner.view());
    experts->CombineExperts(inner.view(), down, routing.routing, {}, out.view());
  };
  step();

  HostMatrix in_order(grouped, shape.hidden);
  for (int64_t g = 0; g < grouped; ++g) {
    std::copy_n(drawn.values.begin() + routing.routing.rows[g] * shape.hidden, shape.hidden,
                in_order.values.begin() + g * shape.hidden);
  }
  const RoutingMemory known = GroupedAlready(routing.routing, grouped);
  const DeviceMatrix all_x(backend, in_order), all_out(backend, grouped, shape.hidden);
  const auto products = [&] {
    experts->GroupedGemm(all_x.view(), gate_up, known.routing, {}, inner.view());
    experts->CombineExperts(inner.view(), down, known.routing, {}, all_out.view());
  };
  products();

  std::vector<double> whole, alone;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double begin = Seconds(num_threads);
    step();
    const double middle = Seconds(num_threads);
    products();
    whole.push_back(middle - begin);
    alone.push_back(Seconds(num_threads) - middle);
  }
  const std::string kernel = std::string(shape.name) + " T " + std::to_string(rows) + " experts";
  if (output == OutputFormat::kJsonLines) {
    std::printf(
        "{\"kernel\": \"%s\", \"format\": \"%s\", \"seconds\": %.6g, "
        "\"products_seconds\": %.6g}\n",
        kernel.c_str(), std::string(Name(format)).c_str(), Median(whole), Median(alone));
    return;
  }
  std::printf("%-44s %-6s %10.3f ms, products of grouped rows alone %.3f ms\n", kernel.c_str(),
              std::string(Name(format)).c_str(), Median(whole) * 1e3, Median(alone) * 1e3);
}

}  // namespace sluice::testing
