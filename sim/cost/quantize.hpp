// Bytes that 8- and 4-bit training moves to make its operands: reads and writes of the kernels that cast, find maxima and transpose.
//
//   cast of an activation   s + l                   (s, l: bytes of an element before and after)
//   cast of a gradient      s + l + l               its copy by columns, for the weight gradient
//   maxima of this tensor   + s                     recipes that scale by the present maximum read everything once more
//   norm that writes low    its own, + l by columns; where the norm cannot quantise: writes s, and the cast reads it again
//   padding of experts      2 s                     each expert's rows copied into (or out of) a buffer where counts are multiples of 16
//                                                   or 32
//   weight gradient         2 l m k                 the saved input turned round, where products take 8 bits only with the contraction
//                                                   innermost and the input was saved by rows
//   weight                  s + l                   at every use, where no low copy is kept for the step: before the first, its
//                           s                       maximum; before the input gradient, by columns
// A compiler (torch.compile around torchao's linears) finds maxima inside the kernels that make a tensor, but casts after them, both ways:
// its matmuls take one layout only, on any device; scales of blocks along columns need a pass of their own (torchao's roofline_utils.py).
// Example: Hopper, delayed scaling, one linear of 4096 x 4096 on 4096 tokens: 50 MB forward, 67 MB for the gradient, 34 MB for the input.
#pragma once

#include "sim/cost/calibration.hpp"
#include "sim/scenario/practice.hpp"

namespace orrery {

// The recipe of a precision, as the calibration names it: "delayed", "current", "blockwise", "mxfp8", "nvfp4".
struct Quantizer {
    bool turns_input = false; // the saved input is transposed before the weight gradient
    bool both_ways = false;   // every cast writes rows and columns: blocks of scales run along the contraction
    bool reads_again = false; // the columns by a kernel of their own
    bool present_maximum = false;
    bool norm_casts = true;     // the norm's kernel writes the low type
    bool casts_weights = false; // where they are used, each time
    bool weight_maximum = false;
    bool pads_experts = false; // rows are copied to and from a layout where each expert's count suits the low type's GEMM
};
// compiled: by torch.compile or XLA, where Practice::compiler_sees_casts.
Quantizer quantizer(const QuantizeTable& table, ScalingRecipe recipe, const std::string& architecture, const Practice& practice,
                    bool compiled);

// Bytes beyond an op's own buffers, and kernels beyond one.
struct Extra {
    double bytes = 0;
    int kernels = 0;
};
Extra cast_extra(const Quantizer& q, bool gradient, double elements, double wide, double low);
Extra norm_extra(const Quantizer& q, double elements, double wide, double low);
// For an expert's linear whose rows or results have the hidden size (Transformer Engine's Fp8Padding and Fp8Unpadding).
Extra padding_extra(const Quantizer& q, double elements, double wide);
Extra weight_gradient_extra(const Quantizer& q, double elements, double low);
// For the weights that a linear reads in its forward pass, or for its input gradient.
Extra weight_extra(const Quantizer& q, bool gradient, double elements, double wide, double low);

} // namespace orrery
