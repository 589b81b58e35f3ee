#include "orchestrator/metrics/histograms.h"

namespace sluice {

const Buckets& SecondsBuckets() {
  static const auto& buckets =
      *new Buckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                   1,     2.5,    5,     10,   25,    60,   120, 300,  600};
  return buckets;
}

const Buckets& TokensBuckets() {
  static const auto& buckets = *new Buckets{1,   2,    5,    10,   20,    50,    100,   200,
                                            500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
  return buckets;
}

const Buckets& SequencesBuckets() {
  static const auto& buckets = *new Buckets{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  return buckets;
}

prometheus::Histogram& HistogramOf(prometheus::Registry& registry, const char* name,
                                   const char* help, const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

}  // namespace sluice
