// e^x of many values at once, several to an instruction: five to ten times as fast as one std::exp after the other.
#pragma once

#include <cstdint>

namespace orrery {

// In place. Within 2 units in the last place; the same result for the same value wherever it stands in the array, so that shards agree
// with the whole. -inf and all below -87 (double: -708) give 0, NaN gives NaN. For float and double.
template <class T> void exponential(T* x, std::int64_t n);

} // namespace orrery
