// Functions that are compiled for several levels of x86-64, of which the processor's best is taken when the program is loaded. Without
// fused multiply-adds all give the same bits.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ORRERY_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ORRERY_CLONES
#endif
