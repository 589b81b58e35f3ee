// Numbers of JSON as Hugging Face's tokenizers read them. Pure; thread-safe.
#pragma once

namespace sluice {

// What serde_json (without its feature float_roundtrip) makes of the shortest decimal of `value`: its
// digits as a whole number, times or divided by a power of ten. Each of the two is rounded, so that
// decimals of more than 15 digits may come out one unit in the last place away. Scores are such
// decimals, and where sums of them are equal but for that, it decides.
double AsSerdeReads(double value);

}  // namespace sluice
