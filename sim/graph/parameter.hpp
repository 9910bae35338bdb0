// Facts about a parameter besides its shape. Code that pads, initialises or shares it reads these, not its name.
#pragma once

#include <cstdint>

namespace orrery {

// The use of a parameter in the model. embedding: of the token ids, and the head too where the two are tied. embedding and head have a row
// for each word of the vocabulary; rows beyond it are padding.
enum class TensorUse : std::uint8_t { weight, embedding, head };

// Its first values. normal: deviation 0.02. output: of a linear whose result is added to the residual stream, divided by
// sqrt(2 layers) (GPT-2).
enum class Initial : std::uint8_t { normal, output, zero, one };

} // namespace orrery
