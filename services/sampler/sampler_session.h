// The sampler in one epoch. For each step: rows to tokens, which answer the plan and go to the
// embedding as well.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "services/common/steady_time.h"
#include "services/model/adapter_library.h"
#include "services/sampler/sampler.h"
#include "services/sampler/sequence_options_cache.h"
#include "services/sampler/sequence_table.h"
#include "services/stage/stage.h"
#include "services/stage/stage_port.h"
#include "services/stage/stage_worker.h"
#include "sluice/v1/sampler.pb.h"

namespace sluice {

class SamplerSession final : public StageSession {
 public:
  // Borrows sampler, adapters, backend, constraints and publisher.
  SamplerSession(const StageOpening& opening, Sampler& sampler, AdapterLibrary& adapters,
                 Backend& backend, ConstraintStore& constraints, ChosenTokensPublisher& publisher);

  void AddPlan(v1::StageRunRequest request) override { port_.AddPlan(std::move(request)); }
  void Run() override { port_.Finish(Serve()); }
  void Close(const absl::Status& reason) override { port_.Close(reason); }

 private:
  struct PreparedRow {
    SamplerSequence* sequence = nullptr;  // null: it needs none, or there is none
    int first = 0;                        // the row of the sequence that has no draft before it
    bool deferred = false;
  };
  // What a plan asks of every row. The tasks borrow from the rest and from the sequences.
  struct Prepared {
    SteadyTime begin = SteadyTime::Now();
    std::vector<std::shared_ptr<const SequenceOptionsCache::Entry>>
        options;                                // of rows that need no more
    std::vector<std::vector<LogitEdit>> edits;  // of rows of sequences
    std::vector<std::vector<uint32_t>> masks;   // of those with constraints
    std::vector<PreparedRow> rows;
    std::vector<SamplerTask> tasks;

    // Of the random numbers of a row that is not scored.
    uint64_t SeedOf(size_t row) const {
      return std::get<SampleRow>(tasks[row].token).options->seed;
    }
  };

  absl::Status Serve();
  // Needs no rows: the stages before compute them meanwhile. What is wrong with a row, or with its
  // sequence, is that row's result.
  Prepared Prepare(const v1::SamplerExecute& plan);
  void PrepareRow(const v1::SamplerExecute& plan, int row, Prepared& prepared);
  void PrepareRowOfSequence(const v1::SamplerExecute& plan, int row, Prepared& prepared);
  absl::StatusOr<SamplerSequence*> FindSequence(const v1::SamplerRow& row);
  // Puts in the masks of constraints. Rows whose masks do not come in time are deferred.
  static void TakeMasks(Prepared& prepared);
  absl::Status Execute(const v1::StageExecute& step, const Prepared& prepared,
                       const v1::PushStep& rows);
  void Answer(const v1::StageExecute& step, const Prepared& prepared,
              const std::vector<SampledToken>& sampled, absl::Duration time);
  // Has a sequence go on with what the rows from `first` on chose of it, as far as its drafts were
  // right. Returns the last row that counts; nothing where that has no token, in which case the
  // sequence is as it was before that row.
  static std::optional<int> CommitAcceptedDrafts(const v1::SamplerExecute& plan,
                                                 const Prepared& prepared,
                                                 const std::vector<SampledToken>& sampled,
                                                 int first);
  // `time`: that choosing them took.
  void Publish(const v1::PushStep& rows, const std::vector<SampledToken>& sampled,
               absl::Duration time);

  Sampler& sampler_;
  AdapterLibrary& adapters_;
  ConstraintStore& constraints_;
  const std::function<void()> on_step_;
  SequenceTable sequences_;
  SequenceOptionsCache options_cache_;
  StagePort port_;
};

}  // namespace sluice
