#include "kernels/communicator/local_communicator.h"

#include <cstring>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "kernels/check.h"

namespace sluice {
namespace {

class LocalCommunicator final : public Communicator {
 public:
  explicit LocalCommunicator(const WiringIdentity& wiring) : wiring_(wiring) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  const WiringIdentity& wiring() const override { return wiring_; }

  absl::Status Broadcast(absl::Span<std::byte> /*data*/, int root, Deadline /*deadline*/) override {
    SLUICE_CHECK(root == 0);
    return Failure();
  }

  absl::Status AllGather(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                         Deadline /*deadline*/) override {
    return Copy(sent, received);
  }

  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                        Deadline /*deadline*/) override {
    return Copy(sent, received);
  }

  absl::Status Check() override { return Failure(); }

  void Abort(absl::Status reason) override {
    SLUICE_CHECK(!reason.ok());
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_.Update(reason);
  }

 private:
  absl::Status Failure() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
  }

  absl::Status Copy(absl::Span<const std::byte> sent, absl::Span<std::byte> received) {
    SLUICE_CHECK(received.size() == sent.size());
    absl::Status failure = Failure();
    if (failure.ok() && !sent.empty()) std::memcpy(received.data(), sent.data(), sent.size());
    return failure;
  }

  const WiringIdentity wiring_;
  std::mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Communicator> MakeLocalCommunicator(const WiringIdentity& wiring) {
  return std::make_unique<LocalCommunicator>(wiring);
}

}  // namespace sluice
