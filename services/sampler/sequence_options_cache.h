// Cache of sampling options by sequence, within one epoch, for options that need only the current
// row. A row carries them once; they are parsed and checked once. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kernels/sampling_options/sampling_options.h"
#include "sluice/v1/sampler.pb.h"

namespace sluice {

class SequenceOptionsCache {
 public:
  struct Entry {
    SamplingOptions options;
    absl::Status refusal;  // why no row can be chosen by them
  };

  explicit SequenceOptionsCache(int64_t vocabulary_size) : vocabulary_size_(vocabulary_size) {}

  // Forgets the sequences that are over.
  void Drop(const v1::SamplerExecute& plan);

  // The options of a row: its own, which hold from now on, or those told before. Null: no row of
  // its sequence has told any.
  std::shared_ptr<const Entry> Of(const v1::SamplerRow& row);

  size_t size() const { return sent_.size(); }

 private:
  Entry Read(const v1::SamplingOptions& message) const;

  const int64_t vocabulary_size_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const Entry>> sent_;
};

}  // namespace sluice
