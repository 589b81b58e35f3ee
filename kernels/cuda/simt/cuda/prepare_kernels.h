// Makes the kernels ready for a GPU, before any of them is launched.
#pragma once

namespace sluice::cuda::on_gpu {

// Has all kernels that the current device can run loaded, and lets them have all of its shared
// memory. A kernel that is loaded when it is first launched has the whole context wait, perhaps for
// a rank that waits for this one; and how much shared memory a kernel may have is the kernel's, not
// a launch's: set from launch to launch, it would fail one that a thread beside makes.
void PrepareKernels();

// Whether launches from now on may begin while the kernels before them end, where the GPU can do so.
void LetKernelsOverlap(bool may);

}  // namespace sluice::cuda::on_gpu
