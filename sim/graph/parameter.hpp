// What is known of a parameter beside its shape: whoever pads, initialises or shares it reads this, not its name.
#pragma once

#include <cstdint>

namespace orrery {

// What a parameter is to the model. embedding: of the token ids, and the head too where the two are tied. embedding and head have a row
// for each word of the vocabulary; rows beyond it are padding.
enum class TensorUse : std::uint8_t { weight, embedding, head };

// Its first values. normal: deviation 0.02. output: of a linear whose result is added to the residual stream, divided by
// sqrt(2 layers) (GPT-2).
enum class Initial : std::uint8_t { normal, output, zero, one };

} // namespace orrery
