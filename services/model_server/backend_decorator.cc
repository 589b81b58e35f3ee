#include "services/model_server/backend_decorator.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace sluice {
namespace {

struct Hook {
  absl::Mutex mutex;
  BackendDecorator decorator ABSL_GUARDED_BY(mutex);
};

// Made at its first use, so that a program may set it before main().
Hook& TheHook() {
  static Hook* const hook = new Hook();
  return *hook;
}

}  // namespace

void SetBackendDecorator(BackendDecorator decorator) {
  Hook& hook = TheHook();
  const absl::MutexLock lock(&hook.mutex);
  hook.decorator = std::move(decorator);
}

std::unique_ptr<Backend> Decorate(std::unique_ptr<Backend> backend) {
  Hook& hook = TheHook();
  BackendDecorator decorator;
  {
    const absl::MutexLock lock(&hook.mutex);
    decorator = hook.decorator;
  }
  return decorator ? decorator(std::move(backend)) : std::move(backend);
}

}  // namespace sluice
