// The streams of Device: what is carried out when, and recordings.
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/gpu/emulator/runtime/device.h"

namespace sluice::cuda::emulator {
namespace {

thread_local cudaStream_t capturing = nullptr;

}  // namespace

bool IsCapturing() { return capturing != nullptr; }

cudaError_t FailCapture() {
  capturing->capture_failed = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaStream_t Device::NewStream() {
  const std::lock_guard lock(mutex_);
  const cudaStream_t stream = *streams_.insert(new CUstream_st).first;
  stream->overlaps = Overlaps(++num_streams_);
  return stream;
}

void Device::EndStream(cudaStream_t stream) {
  RunStream(stream);
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
  delete stream;
}

void Device::AddToStream(cudaStream_t stream, Work work) {
  if (stream->capture != nullptr) {
    stream->capture->work.push_back(std::move(work));
  } else {
    stream->work.push_back(std::move(work));
  }
}

cudaError_t Device::Enqueue(cudaStream_t stream, Work work) {
  const std::lock_guard lock(mutex_);
  AddToStream(stream, std::move(work));
  return lasting_error_;
}

cudaError_t Device::EnqueueCopy(cudaStream_t stream, const CopyWork& copy) {
  {
    const std::lock_guard lock(mutex_);
    for (const void* const end : {static_cast<const void*>(copy.to), copy.from}) {
      const auto found = memory_.Find(reinterpret_cast<uint64_t>(end));
      if (copy.bytes != 0 && found.size_bytes == 0) {
        Say("a copy from or to memory of the host that was not pinned");
        return cudaErrorInvalidValue;
      }
    }
  }
  return Enqueue(stream, copy);
}

cudaError_t Device::EnqueueAll(cudaStream_t stream, const std::vector<Work>& work) {
  const std::lock_guard lock(mutex_);
  for (const Work& one : work) AddToStream(stream, one);
  return lasting_error_;
}

bool Device::IsIdle(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  return stream->work.empty();
}

cudaError_t Device::RunStream(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  return RunLocked(stream);
}

cudaError_t Device::RunLocked(cudaStream_t stream) {
  while (!stream->work.empty()) {
    const cudaError_t error = Carry(*stream, stream->work.front());
    if (error == cudaErrorNotReady) return error;
    stream->work.pop_front();
  }
  return lasting_error_;
}

cudaError_t Device::RunAll() {
  for (;;) {
    bool all_done = true;
    {
      const std::lock_guard lock(mutex_);
      for (const cudaStream_t stream : streams_) {
        if (RunLocked(stream) == cudaErrorNotReady) all_done = false;
      }
      if (all_done) return lasting_error_;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::string Device::CarryLaunch(CUstream_st& stream, const LaunchRequest& launch) {
  const LaunchOrder order = stream.overlaps.Begin(++num_launches_, launch.may_overlap);
  GridDependence dependence;
  const absl::Status status = CarryOut(launch, order, memory_, dependence);
  stream.overlaps.End(order, dependence);
  return std::string(status.message());
}

// After a fault nothing is carried out, but what others wait for is done.
cudaError_t Device::Carry(CUstream_st& stream, Work& work) {
  if (auto* const record = std::get_if<RecordWork>(&work)) {
    record->event->is_done = true;
    return cudaSuccess;
  }
  if (lasting_error_ != cudaSuccess) return lasting_error_;
  if (const auto* const await = std::get_if<AwaitWork>(&work)) {
    return *await->word == await->value ? cudaSuccess : cudaErrorNotReady;
  }
  std::string wrong;
  if (!std::holds_alternative<LaunchRequest>(work)) stream.overlaps.EndAll();
  if (const auto* const launch = std::get_if<LaunchRequest>(&work)) {
    wrong = CarryLaunch(stream, *launch);
  } else if (const auto* const copy = std::get_if<CopyWork>(&work)) {
    for (const void* const end : {static_cast<const void*>(copy->to), copy->from}) {
      if (wrong.empty() && copy->bytes != 0) {
        wrong = memory_.Check(reinterpret_cast<uint64_t>(end), copy->bytes, 1);
      }
    }
    if (wrong.empty()) std::memmove(copy->to, copy->from, copy->bytes);
  } else if (const auto* const fill = std::get_if<FillWork>(&work)) {
    wrong = memory_.Check(reinterpret_cast<uint64_t>(fill->to), fill->bytes, 1);
    if (wrong.empty()) std::memset(fill->to, fill->value, fill->bytes);
  } else if (const auto* const write = std::get_if<WriteWork>(&work)) {
    *write->word = write->value;
  }
  if (wrong.empty()) return cudaSuccess;
  Say(wrong);
  return lasting_error_ = cudaErrorLaunchFailure;
}

cudaError_t Device::BeginCapture(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  stream->capture = new CUgraph_st;
  stream->capture_failed = false;
  capturing = stream;
  return cudaSuccess;
}

cudaError_t Device::EndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex_);
  if (stream->capture == nullptr) return cudaErrorIllegalState;
  *graph = std::exchange(stream->capture, nullptr);
  capturing = nullptr;
  if (!stream->capture_failed) return cudaSuccess;
  delete std::exchange(*graph, nullptr);
  return cudaErrorStreamCaptureInvalidated;
}

}  // namespace sluice::cuda::emulator
