#include "services/work/work_metadata.h"

#include <cmath>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

// Binary: a tenant may have any name.
constexpr char kTenantKey[] = "sluice-work-tenant-bin";
constexpr char kWeightKey[] = "sluice-work-weight";
constexpr char kWorkKey[] = "sluice-work-us";

}  // namespace

void SetWorkOwner(const WorkOwner& owner, grpc::ClientContext& context) {
  if (!owner.tenant.empty()) context.AddMetadata(kTenantKey, owner.tenant);
  if (owner.weight != 1) context.AddMetadata(kWeightKey, absl::StrCat(owner.weight));
}

absl::Duration WorkOf(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find(kWorkKey);
  int64_t microseconds = 0;
  if (found == metadata.end() ||
      !absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()),
                        &microseconds)) {
    return absl::ZeroDuration();
  }
  return absl::Microseconds(microseconds);
}

WorkOwner WorkOwnerOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  WorkOwner owner;
  if (const auto tenant = metadata.find(kTenantKey); tenant != metadata.end()) {
    owner.tenant.assign(tenant->second.data(), tenant->second.size());
  }
  if (const auto weight = metadata.find(kWeightKey); weight != metadata.end()) {
    double value = 0;
    const absl::string_view text(weight->second.data(), weight->second.size());
    if (absl::SimpleAtod(text, &value) && std::isfinite(value) && value > 0) owner.weight = value;
  }
  return owner;
}

void SetWork(absl::Duration work, grpc::CallbackServerContext& context) {
  context.AddTrailingMetadata(kWorkKey, absl::StrCat(absl::ToInt64Microseconds(work)));
}

}  // namespace sluice
