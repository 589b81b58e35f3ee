// Fuzzes what servers write beside a status: any details give a status with a delay or without one.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/check.h"
#include "services/common/status.h"
#include "services/messages/retry_info.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string details(reinterpret_cast<const char*>(data), size);
  const absl::Status status =
      sluice::FromGrpc(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", details));
  SLUICE_CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  SLUICE_CHECK(status.message() == "full");
  // What was read is what is written again.
  SLUICE_CHECK(sluice::RetryDelay(sluice::FromGrpc(sluice::ToGrpc(status))) ==
               sluice::RetryDelay(status));
  return 0;
}
