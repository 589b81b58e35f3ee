#include "kernels/cpu/fused.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fused.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

bool IsFused() { return HWY_NATIVE_FMA != 0; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(IsFused);

bool HasFusedMultiplyAdd() { return HWY_DYNAMIC_DISPATCH(IsFused)(); }

}  // namespace sluice
#endif  // HWY_ONCE
