#include "services/work/work_metadata.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

// Binary: a tenant may have any name.
constexpr char kTenantKey[] = "sluice-work-tenant-bin";
constexpr char kWeightKey[] = "sluice-work-weight";
constexpr char kBudgetKey[] = "sluice-work-budget-us";
constexpr char kWorkKey[] = "sluice-work-us";

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// Nothing where it is missing or no time.
std::optional<absl::Duration> TimeIn(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  int64_t microseconds = 0;
  if (found == metadata.end() ||
      !absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()),
                        &microseconds) ||
      microseconds < 0) {
    return std::nullopt;
  }
  return absl::Microseconds(microseconds);
}

}  // namespace

void SetWork(const WorkFor& work, grpc::ClientContext& context) {
  if (!work.owner.tenant.empty()) context.AddMetadata(kTenantKey, work.owner.tenant);
  if (work.owner.weight != 1) context.AddMetadata(kWeightKey, absl::StrCat(work.owner.weight));
  const absl::Duration left = work.left();
  if (left < absl::InfiniteDuration()) {
    context.AddMetadata(kBudgetKey, absl::StrCat(absl::ToInt64Microseconds(left)));
  }
}

absl::Duration WorkOf(const grpc::ClientContext& context) {
  constexpr absl::Duration kMost = absl::Hours(1);  // that a call can have taken
  const std::optional<absl::Duration> work = TimeIn(context.GetServerTrailingMetadata(), kWorkKey);
  return std::min(kMost, work.value_or(absl::ZeroDuration()));
}

absl::Duration WorkBudgetOf(const grpc::CallbackServerContext& context) {
  return TimeIn(context.client_metadata(), kBudgetKey).value_or(absl::InfiniteDuration());
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
