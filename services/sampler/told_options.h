// The options of sequences that look at no more than a row, as rows have told them in one epoch. What
// is told once is read and checked once. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kernels/sampling_options/sampling_options.h"
#include "sluice/v1/sampler.pb.h"

namespace sluice {

class ToldOptions {
 public:
  struct Told {
    SamplingOptions options;
    absl::Status refusal;  // why no row can be chosen by them
  };

  explicit ToldOptions(int64_t vocabulary_size) : vocabulary_size_(vocabulary_size) {}

  // Forgets the sequences that are over.
  void Drop(const v1::SamplerExecute& plan);

  // The options of a row: its own, which hold from now on, or those told before. Null: no row of
  // its sequence has told any.
  std::shared_ptr<const Told> Of(const v1::SamplerRow& row);

  size_t size() const { return told_.size(); }

 private:
  Told Read(const v1::SamplingOptions& message) const;

  const int64_t vocabulary_size_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const Told>> told_;
};

}  // namespace sluice
