// Improvements that slow a real machine down, each with who measured it. Nothing else may.
#include "tests/laws/whatif.hpp"

namespace orrery::laws {

const std::vector<Anomaly>& known_anomalies() {
    static const std::vector<Anomaly> list{
        {"unfused -> flash-1", "",
         "Triton's kernel of the first FlashAttention is slower than products and a softmax at short rows and few heads",
         "fitted to training runs with it: scenarios/validation/llm_foundry.json, llm_foundry_fp8.json (attn_impl: triton)", 0.15},
        {"mi325x -> mi355x", "\"precision\":\"fp32\"", "vector units of CDNA 4 do fewer fp32 operations than CDNA 3's",
         "datasheets: 163.4 and 157.3 TFLOP/s (scenarios/devices)", 0.04},
        {"mi300x -> mi355x", "\"precision\":\"fp32\"", "the same", "the same", 0.04},
    };
    return list;
}

} // namespace orrery::laws
