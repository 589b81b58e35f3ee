// Makes what gRPC's callbacks order visible to ThreadSanitizer. Debian's gRPC is built without it
// and passes memory from thread to thread through atomics of its own, so that what goes through a
// call would look unguarded. Linked into executables of the preset `tsan` alone.
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpcpp/support/callback_common.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tests/testing/tsan_library_function.h"

// What a Java machine tells the sanitizer of memory that it hands out.
extern "C" void __tsan_java_alloc(uintptr_t memory, uintptr_t size);

// Nothing has been done with this memory yet, as far as the sanitizer is concerned.
static void TellNew(const void* memory, size_t size) {
  constexpr uintptr_t kCell = 8;  // the sanitizer's unit
  const auto begin = reinterpret_cast<uintptr_t>(memory) / kCell * kCell;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + size + kCell - 1) / kCell * kCell;
  if (begin < end) __tsan_java_alloc(begin, end - begin);
}

// gRPC builds the objects of a call in memory of the call's arena, which goes from one call to the
// next through atomics inside libgrpc.
extern "C" void* grpc_call_arena_alloc(grpc_call* call, size_t size) {
  SLUICE_LIBRARY(void*(grpc_call*, size_t), "grpc_call_arena_alloc");
  void* const memory = library(call, size);
  TellNew(memory, size);
  return memory;
}

// So is a received message, whose sender, in the same process, may have written it on another
// thread, and the slice that says where it is.
extern "C" __attribute__((no_sanitize_thread)) int grpc_byte_buffer_reader_peek(
    grpc_byte_buffer_reader* reader, grpc_slice** slice) {
  SLUICE_LIBRARY(int(grpc_byte_buffer_reader*, grpc_slice**), "grpc_byte_buffer_reader_peek");
  const int found = library(reader, slice);
  if (found != 0) TellNew(GRPC_SLICE_START_PTR(**slice), GRPC_SLICE_LENGTH(**slice));
  return found;
}

// What happened before an operation of a call was started happened before its completion is told:
// the tag that goes in is the functor that is run, on another thread.
extern "C" grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count,
                                                 void* tag, void* reserved) {
  SLUICE_LIBRARY(grpc_call_error(grpc_call*, const grpc_op*, size_t, void*, void*),
                 "grpc_call_start_batch");
  __tsan_release(tag);
  return library(call, ops, count, tag, reserved);
}

// A call on the server is done when the last of its references is dropped, perhaps inside
// libgrpc++; what its other holders did comes before.
using ServerCall = grpc::internal::ServerCallbackCall;
std::atomic_int* References(ServerCall& call);
template <auto references>
struct ServerCallReferences {
  friend std::atomic_int* References(ServerCall& call) { return &(call.*references); }
};
template struct ServerCallReferences<&ServerCall::callbacks_outstanding_>;

void ServerCall::ScheduleOnDone(bool inline_ondone) {
  SLUICE_LIBRARY(void(ServerCall*, bool),
                 "_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb");
  __tsan_acquire(References(*this));
  library(this, inline_ondone);
}

using StatusTag = grpc::internal::CallbackWithStatusTag;
using SuccessTag = grpc::internal::CallbackWithSuccessTag;

// The private member functions that complete a call, which an explicit instantiation may name.
void Complete(StatusTag& tag, bool ok);
void Complete(SuccessTag& tag, bool ok);
template <class Tag, auto run>
struct Completion {
  friend void Complete(Tag& tag, bool ok) { (tag.*run)(ok); }
};
template struct Completion<StatusTag, &StatusTag::Run>;
template struct Completion<SuccessTag, &SuccessTag::Run>;

template <class Tag>
void CompleteAfterStart(grpc_completion_queue_functor* functor, int ok) {
  __tsan_acquire(functor);
  Complete(*static_cast<Tag*>(functor), ok != 0);
}

// NOLINTBEGIN(bugprone-reserved-identifier): mangled names
extern "C" void
_ZN4grpc8internal21CallbackWithStatusTag9StaticRunEP29grpc_completion_queue_functori(
    grpc_completion_queue_functor* functor, int ok) {
  CompleteAfterStart<StatusTag>(functor, ok);
}

extern "C" void
_ZN4grpc8internal22CallbackWithSuccessTag9StaticRunEP29grpc_completion_queue_functori(
    grpc_completion_queue_functor* functor, int ok) {
  CompleteAfterStart<SuccessTag>(functor, ok);
}
// NOLINTEND(bugprone-reserved-identifier)
