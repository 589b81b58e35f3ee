// The quantization_config of files that Sluice did not write: which layout they have, and the
// format in which weights of it are kept. Read strictly: what is not known is refused by its field.
#pragma once

#include <string>

#include "kernels/weight_format.h"
#include "services/model/json_fields.h"
#include "services/model/published/scheme.h"

namespace sluice {

// Reads the object whose quant_method is `method`. Errors go to `fields`, UNIMPLEMENTED for
// methods, versions, numbers of bits, group sizes and configurations of single layers that are not
// read.
PublishedScheme ReadPublishedScheme(JsonFields& fields, const std::string& method);

// The format that keeps numbers, scales and zero points as the files have them: one of the formats
// with zero points, FP8, or F32 where none does. In files whose groups are not neighbouring inputs
// that is F32, if `in_order` does not say that their lists of groups turned out to be neighbours.
WeightFormat NativeFormatOf(const PublishedScheme& scheme, bool in_order = false);

}  // namespace sluice
