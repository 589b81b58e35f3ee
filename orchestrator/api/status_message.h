// Builds GetStatus responses from the engine's values. Pure functions.
#pragma once

#include "orchestrator/api/client_errors.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/engine/ledger.h"
#include "sluice/v1/status.pb.h"

namespace sluice {

// Adds to what is there already.
void FillStatus(const EngineStatus& status, v1::GetStatusResponse& response);
void FillLedger(const LedgerReport& report, v1::GetStatusResponse& response);

// Removes the addresses of processes, and from their details what `errors` takes for locations.
void HideLocations(const ClientErrors& errors, v1::GetStatusResponse& response);

}  // namespace sluice
