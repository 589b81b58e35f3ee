// Has Inspect calls computed beside serving: each by a process of its own (sluice-inspector), which ends
// with its answer, one at a time and with the lowest priority. What it takes is its tenant's: tenants take
// turns by weight and are billed its processor time. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "orchestrator/text/request_context.h"
#include "services/work/fair_work.h"
#include "sluice/v1/inspect.pb.h"

namespace sluice {

struct InspectorRunnerOptions {
  std::string program;  // path of sluice-inspector
  std::string model;    // folder
  std::string rope_scaling;
  std::string weights;  // as --weights has it
  int num_threads = 1;
  int max_calls = 16;  // that wait or are computed; a tenant may have half
};

class InspectorRunner {
 public:
  using Callback = std::function<void(absl::StatusOr<v1::InspectResponse>)>;

  explicit InspectorRunner(InspectorRunnerOptions options);

  // Calls back once, from a thread of its own or at once. REQUIRES: the request has token ids.
  // Statuses as in inspect.proto; CANCELLED or DEADLINE_EXCEEDED where the caller leaves or its time
  // is over, which ends the process; INTERNAL where that ends by itself.
  void Inspect(v1::InspectRequest request, const RequestContext& context, Callback callback);

  // Ends the call that is computed, and those that wait or come, with UNAVAILABLE.
  void Stop() { stopping_ = true; }

 private:
  absl::StatusOr<v1::InspectResponse> Run(const v1::InspectRequest& request,
                                          const RequestContext& context, FairWork::Slice& slice);

  const InspectorRunnerOptions options_;
  std::atomic<bool> stopping_ = false;
  FairWork work_;  // last: its threads use what is above
};

}  // namespace sluice
