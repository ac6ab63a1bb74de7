// What all kernels share: number formats, the few instructions CUDA C++ has no name for, and the layout of weights.
//
// Compiled by NVRTC without any of CUDA's headers. With EMULATED defined it is ordinary C++: emulated/shim.h then
// provides the same names on a CPU.
#pragma once

#ifdef EMULATED
#include "emulated/shim.h"
#else
#define KERNEL extern "C" __global__
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

typedef unsigned int u32;
typedef unsigned long long u64;
// The upper half of a float.
typedef unsigned short bf16;

#define FULL_WARP 0xffffffffu
#define NEGATIVE_INFINITY __uint_as_float(0xff800000u)

// Positions in one block of a KV pool.
#define KV_BLOCK 16
// Position of a token that only fills a bucket up.
#define PADDING (-1)
// How many of a row's largest logits are kept.
#define KEPT 128

__device__ __forceinline__ float bf16_to_float(bf16 value) { return __uint_as_float(u32(value) << 16); }

// Rounds to nearest, ties to even. What is no number stays none.
__device__ __forceinline__ bf16 float_to_bf16(float value) {
    u32 bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bf16((bits >> 16) | 0x40u);
    return bf16((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Eight bf16 of a 16-byte load.
__device__ __forceinline__ void unpack(uint4 packed, float (&values)[8]) {
    const u32 words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        values[2 * i] = __uint_as_float(words[i] << 16);
        values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
}

// Sums over the first `width` lanes of aligned groups of a warp. One order, whatever the values.
template <int WIDTH>
__device__ __forceinline__ float group_sum(float value) {
#pragma unroll
    for (int step = WIDTH / 2; step > 0; step /= 2) value += __shfl_xor_sync(FULL_WARP, value, step);
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(FULL_WARP, value, step));
    return value;
}

// Sum over a block of 256, the same in every thread. Eight partial sums of warps, added in their order.
__device__ __forceinline__ float block_sum(float value, float* warps) {
    value = group_sum<32>(value);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < 8; warp++) sum += warps[warp];
    return sum;
}

// What is known of a part of a row. With m = max and d = z - m: sum = Σ exp(d), weighted = Σ d exp(d).
struct Part {
    double sum, weighted;
    float max;
    u32 token;  // the smallest with the largest logit
    u32 finite; // no NaN and no positive infinity
    u32 unused;
};

// The logit of a rank: the inverse of `rank` in logits.cu.
__device__ __forceinline__ float logit_of(u64 rank) {
    const u32 ordered = u32(rank >> 32);
    return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

// Weights [rows, k] lie as the tensor cores take them: tiles of 16 rows × 32 columns, 1,024 bytes each, tile after tile
// along a row of tiles. Within a tile: the upper eight rows, then the lower eight, each as 32 pieces of 8 columns,
// row-major. A lane's piece is thus both its share of a coalesced load and its operands of two products.
//
// Index of the 16-byte piece with columns 8 piece .. 8 piece + 7 of a row.
__device__ __forceinline__ u64 packed_piece(u64 row, u32 piece, u32 k) {
    u64 tile = (row / 16) * (k / 32) + piece / 4;
    return tile * 64 + (row % 16) * 4 + piece % 4;
}

#ifndef EMULATED

// Copies 16 bytes from device to shared memory without waiting.
__device__ __forceinline__ void copy_async(void* to, const void* from) {
    u32 address = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}

// Ends a group of copies.
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most N of this thread's groups are under way.
template <int N>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// d += a b for a 16×16 and b 16×8, bf16 with float sums (mma.m16n8k16).
__device__ __forceinline__ void multiply_add(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

#endif
