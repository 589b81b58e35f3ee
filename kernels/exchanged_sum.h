// The sum over ranks by exchanging partials and adding them in a fixed tree: what all rank groups
// have in common, whatever moves the bytes.
//
// Two ways, the same bits:
//   few rows   every rank gathers all partials and adds them all: one exchange
//   many rows  rank r gets all partials of the r-th part of the rows, adds those, and all gather
//              the sums: two exchanges, but every rank receives only 2 (R-1)/R partials instead of
//
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/rank_exchange.h"

namespace sluice {

class ExchangedSum {
 public:
  // Allocates what the largest exchange needs. RESOURCE_EXHAUSTED where the backend lacks memory.
  static absl::StatusOr<ExchangedSum> Create(const RankGroupSpec& spec, Backend& backend);

  // As RankGroup::SumToResidual.
  absl::Status SumToResidual(MatrixView partial, const ResidualUpdate& update,
                             RankExchange& exchange);

  const RankGroupSpec& spec() const { return spec_; }
  // The most bytes that a rank sends in one call.
  size_t largest_message() const;

 private:
  static constexpr int kMaxRanks = 8;
  struct Terms {
    size_t count = 0;
    std::array<MatrixView, kMaxRanks> matrices;
    absl::Span<const MatrixView> span() const { return {matrices.data(), count}; }
  };

  ExchangedSum(const RankGroupSpec& spec, Backend& backend, std::unique_ptr<Buffer> memory)
      : spec_(spec), backend_(&backend), memory_(std::move(memory)) {}

  absl::Status SumAll(MatrixView partial, const ResidualUpdate& update, RankExchange& exchange);
  absl::Status SumParts(MatrixView partial, const ResidualUpdate& update, RankExchange& exchange);
  // num_ranks matrices like `one` that lie one after another in memory_.
  Terms Gathered(MatrixView one) const;

  RankGroupSpec spec_;
  Backend* backend_;
  std::unique_ptr<Buffer> memory_;
};

}  // namespace sluice
