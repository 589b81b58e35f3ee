// sluice-embedding with a defect: it kills itself over the token that SLUICE_POISON_TOKEN names.
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "kernels/observed/forwarding_backend.h"
#include "services/model_server/backend_decorator.h"

namespace sluice {
namespace {

class PoisonedBackend final : public ForwardingBackend {
 public:
  PoisonedBackend(std::unique_ptr<Backend> within, std::string poison)
      : ForwardingBackend(std::move(within)), poison_(std::move(poison)) {}

  // The embedding looks up rows by token id.
  void GatherRows(MatrixView table, absl::Span<const int32_t> rows, MatrixView out) override {
    for (const int32_t row : rows) {
      if (std::to_string(row) == poison_) std::raise(SIGKILL);
    }
    ForwardingBackend::GatherRows(table, rows, out);
  }

 private:
  const std::string poison_;
};

// Before main(), which is the service's own.
[[maybe_unused]] const bool kIsPoisoned = [] {
  const char* const poison = std::getenv("SLUICE_POISON_TOKEN");
  if (poison == nullptr) return false;
  SetBackendDecorator([poison = std::string(poison)](std::unique_ptr<Backend> backend) {
    return std::make_unique<PoisonedBackend>(std::move(backend), poison);
  });
  return true;
}();

}  // namespace
}  // namespace sluice
