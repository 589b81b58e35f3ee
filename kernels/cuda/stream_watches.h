// The watches of a stream, as one: whoever waits for the stream looks at all of them. Belongs to the
// backend's thread.
#pragma once

#include <vector>

#include "kernels/cuda/gpu.h"

namespace sluice::cuda {

class StreamWatches final : public StreamWatch {
 public:
  // Borrowed until it is removed.
  void Add(StreamWatch* watch) { watches_.push_back(watch); }
  void Remove(StreamWatch* watch) { std::erase(watches_, watch); }

  // The first one's failure.
  absl::Status Look() override {
    absl::Status status;
    for (StreamWatch* const watch : watches_) status.Update(watch->Look());
    return status;
  }

 private:
  std::vector<StreamWatch*> watches_;
};

}  // namespace sluice::cuda
