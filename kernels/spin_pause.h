// A hint between two looks of a loop that spins.
#pragma once

namespace sluice {

// Tells the core that this is a spin, so that its sibling thread gets the execution units and the
// loop's end costs no misprediction. On Arm an instruction barrier: it holds the core up for about
// as long as x86's pause, where `yield` is over at once on most cores. (Highway's Pause() is empty
// on Arm.)
inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace sluice
