// What a peer says of its ring of rows, and of rows in it: a handle, a size, positions and shapes
// of its choosing. What is accepted lies within the memory that was opened, or the asynchronous
// backend's pages would end this with SIGSEGV.
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "kernels/reference/reference_backend.h"
#include "services/messages/wiring_message.h"
#include "services/rows/row_ring.h"
#include "services/rows/row_ring_reader.h"
#include "tests/kernels/testing/async_backend.h"

namespace {

constexpr int64_t kHidden = 64, kRows = 16;
constexpr sluice::WiringIdentity kWiring;

struct Ends {
  std::unique_ptr<sluice::Backend> sending =
      sluice::MakeAsyncBackend(sluice::MakeReferenceBackend());
  std::unique_ptr<sluice::Backend> receiving =
      sluice::MakeAsyncBackend(sluice::MakeReferenceBackend());
  sluice::RowRing ring{*sending, kHidden, kRows};
  sluice::StepRows rows{*receiving, kHidden};
  sluice::RowRingReader reader{*receiving};

  Ends() {
    const auto offer = ring.Offer(kWiring);
    if (!offer.ok() || !reader.Open(*offer, kWiring).ok()) abort();
  }
};

void LoadStep(Ends& ends, const sluice::v1::PushStep& step) {
  const absl::Status loaded = ends.reader.Load(step, ends.rows);
  if (!ends.receiving->Synchronize().ok()) abort();
  if (loaded.ok() && step.has_in_ring() && ends.rows.rows() > kRows) abort();
  ends.reader.Done();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& ends = *new Ends;
  if (size < 1) return 0;
  const int length = static_cast<int>(size - 1);
  if (data[0] % 2 == 0) {
    sluice::v1::PushStep step;
    if (step.ParseFromArray(data + 1, length)) LoadStep(ends, step);
  } else {
    sluice::v1::RowRingOffer offer;
    sluice::RowRingReader reader(*ends.receiving);
    if (!offer.ParseFromArray(data + 1, length)) return 0;
    // As a peer of the wiring: others are refused before anything else is looked at.
    sluice::SetWiring(kWiring, offer);
    reader.Open(offer, kWiring).IgnoreError();
  }
  return 0;
}
