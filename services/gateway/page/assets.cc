#include "services/gateway/page/assets.h"

namespace sluice::gateway {
namespace {

#include "embedded_assets.inc"  // made of the folder assets by embed.cmake

constexpr char kScript[] = "text/javascript; charset=utf-8";

template <size_t kSize>
absl::string_view View(const char (&content)[kSize]) {
  return {content, kSize - 1};
}

}  // namespace

const std::vector<Asset>& Assets() {
  static const auto* const assets = new std::vector<Asset>{
      {"/", "text/html; charset=utf-8", View(kIndexHtml)},
      {"/page/page.css", "text/css; charset=utf-8", View(kPageCss)},
      {"/page/icon.svg", "image/svg+xml", View(kIconSvg)},
      {"/page/main.js", kScript, View(kMainJs)},
      {"/page/write.js", kScript, View(kWriteJs)},
      {"/page/sampling.js", kScript, View(kSamplingJs)},
      {"/page/events.js", kScript, View(kEventsJs)},
      {"/page/help.js", kScript, View(kHelpJs)},
      {"/page/key.js", kScript, View(kKeyJs)},
      {"/page/recovery.js", kScript, View(kRecoveryJs)},
      {"/page/share.js", kScript, View(kShareJs)},
      {"/page/pipeline.js", kScript, View(kPipelineJs)},
      {"/page/charts.js", kScript, View(kChartsJs)},
      {"/page/cache.js", kScript, View(kCacheJs)},
      {"/page/attention.js", kScript, View(kAttentionJs)},
  };
  return *assets;
}

}  // namespace sluice::gateway
