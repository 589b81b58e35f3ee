// The buckets that histograms of the orchestrator share. Thread-safe.
#pragma once

#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace sluice {

using Buckets = prometheus::Histogram::BucketBoundaries;

// From what a small model on an idle machine takes to what a client still waits for.
const Buckets& SecondsBuckets();
// Of tokens or positions.
const Buckets& TokensBuckets();
// Of sequences in a step: powers of two.
const Buckets& SequencesBuckets();

// Registered with `registry`, which must outlive it.
prometheus::Histogram& HistogramOf(prometheus::Registry& registry, const char* name,
                                   const char* help, const Buckets& buckets);

}  // namespace sluice
