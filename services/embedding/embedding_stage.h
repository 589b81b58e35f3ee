// The embedding as a kind of stage. Thread-safe.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "services/embedding/embedding_table.h"
#include "services/model/adapter_library.h"
#include "services/rows/row_ring.h"
#include "services/rpc/transport.h"
#include "services/stage/stage.h"

namespace sluice {

class EmbeddingStage final : public Stage {
 public:
  // Borrows everything.
  EmbeddingStage(EmbeddingTable* table, AdapterLibrary* adapters, Backend* backend, Dialer* dialer)
      : table_(*table),
        adapters_(*adapters),
        backend_(*backend),
        dialer_(*dialer),
        ring_(*backend, table->row_width()) {}

  Role role() const override { return Role::kEmbedding; }
  bool TakesRows() const override { return false; }
  absl::StatusOr<std::shared_ptr<StageSession>> MakeSession(const StageOpening& opening) override;
  void Describe(v1::GetStageInfoResponse& info) const override;

 private:
  EmbeddingTable& table_;
  AdapterLibrary& adapters_;  // touched by the worker's thread alone, as the ring
  Backend& backend_;
  Dialer& dialer_;
  RowRing ring_;  // touched by the worker's thread alone
};

}  // namespace sluice
