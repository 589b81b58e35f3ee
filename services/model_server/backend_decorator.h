// Hook that wraps the backends of a process's model servers. Tests use it to run the real services
// on devices with other properties, or with a defect; no program of the product sets one.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>

#include "kernels/backend.h"

namespace sluice {

// Returns the backend to use in place of the one it receives.
using BackendDecorator = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)>;

// Applies `decorator` to every backend that a ModelServer of this process makes from now on. An
// empty one leaves backends as they are, which is the initial state.
void SetBackendDecorator(BackendDecorator decorator);

// `backend`, or what the decorator makes of it.
std::unique_ptr<Backend> Decorate(std::unique_ptr<Backend> backend);

}  // namespace sluice
