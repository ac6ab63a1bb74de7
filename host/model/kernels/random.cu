// Weights of no meaning, for measurements: made where they are needed, so that no file of their size is.
#include "device.cuh"

// Steele et al., "Fast splittable pseudorandom number generators", 2014: the finaliser of SplitMix64.
__device__ __forceinline__ u64 mix(u64 z) {
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Uniform in [-bound, bound): element i depends on seed and i alone. Any grid, block 256.
KERNEL void __launch_bounds__(256) fill_random(bf16* out, u64 count, u64 seed, float bound) {
    for (u64 i = u64(blockIdx.x) * 256 + threadIdx.x; i < count; i += u64(gridDim.x) * 256) {
        const float unit = float(u32(mix(seed ^ mix(i)) >> 40)) * (1.0f / 16777216.0f);
        out[i] = float_to_bf16((2.0f * unit - 1.0f) * bound);
    }
}

// The same value everywhere. Any grid, block 256.
KERNEL void __launch_bounds__(256) fill(float* out, u64 count, float value) {
    for (u64 i = u64(blockIdx.x) * 256 + threadIdx.x; i < count; i += u64(gridDim.x) * 256) out[i] = value;
}
