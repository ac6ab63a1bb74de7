// y = x Wᵀ for few rows of x, bound by the bandwidth of W.
//
// A block computes 16 R rows of W for up to NT tokens. Its eight warps take one eighth of k each, stream their share of
// W through a ring of shared memory with asynchronous copies, multiply on the tensor cores, and add up their sums in
// the order of the warps. So the order of every sum depends on k alone: a token's result is the same bits for every NT, every
// R and whatever other tokens are there.
#include "device.cuh"

#define WARPS 8
#define TILE_BYTES 1024
// Distance of two tokens in the array of partial sums: keeps a warp's writes in different banks.
#define STRIDE 20

// What becomes of a sum.
#define STORE 0   // y = sum, float
#define ADD 1     // y += sum, float
#define SWIGLU 2  // y = silu(g) u in bf16, for W with tiles of g and u in turn

template <int NT, int R, int STAGES, int END>
__device__ __forceinline__ void gemm(const uint4* w, const bf16* x, void* y, u32 rows, u32 k, u32 tokens) {
    DYNAMIC_SHARED(shared);
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 token0 = blockIdx.x * NT, chunks = k / 32;
    const u32 begin = chunks * warp / WARPS, end = chunks * (warp + 1) / WARPS;
    uint4* ring = reinterpret_cast<uint4*>(shared) + warp * STAGES * R * 64;
    const uint4* tiles = w + u64(blockIdx.y) * R * chunks * 64;
    const bf16* columns = x + u64(token0 + lane / 4) * k + (lane % 4) * 8;

    float sums[R][NT / 8][4];
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int j = 0; j < NT / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[r][j][i] = 0.0f;

    // A lane copies exactly the pieces that it reads, so a wait of its own is enough.
    auto fetch = [&](u32 chunk, u32 stage) {
        if (chunk < end) {
#pragma unroll
            for (int r = 0; r < R; r++) {
                const uint4* from = tiles + (u64(r) * chunks + chunk) * 64 + lane;
                uint4* to = ring + (stage * R + r) * 64 + lane;
                copy_async(to, from);
                copy_async(to + 32, from + 32);
            }
        }
        copy_commit();
    };
#pragma unroll
    for (int stage = 0; stage < STAGES; stage++) fetch(begin + stage, stage);

    u32 stage = 0;
    for (u32 chunk = begin; chunk < end; chunk++) {
        uint4 b[NT / 8];
#pragma unroll
        for (int j = 0; j < NT / 8; j++)
            b[j] = *reinterpret_cast<const uint4*>(columns + u64(j) * 8 * k + chunk * 32);
        copy_wait<STAGES - 1>();
#pragma unroll
        for (int r = 0; r < R; r++) {
            const uint4 upper = ring[(stage * R + r) * 64 + lane], lower = ring[(stage * R + r) * 64 + 32 + lane];
#pragma unroll
            for (int j = 0; j < NT / 8; j++) {
                multiply_add(sums[r][j], upper.x, lower.x, upper.y, lower.y, b[j].x, b[j].y);
                multiply_add(sums[r][j], upper.z, lower.z, upper.w, lower.w, b[j].z, b[j].w);
            }
        }
        fetch(chunk + STAGES, stage);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    copy_wait<0>();

    constexpr int TOGETHER = END == SWIGLU ? 2 : 1;
    float* partial = reinterpret_cast<float*>(shared);
#pragma unroll
    for (int r = 0; r < R; r += TOGETHER) {
        __syncthreads();
#pragma unroll
        for (int h = 0; h < TOGETHER; h++)
#pragma unroll
            for (int j = 0; j < NT / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const u32 token = j * 8 + (lane % 4) * 2 + i % 2, row = lane / 4 + i / 2 * 8;
                    partial[((warp * TOGETHER + h) * NT + token) * STRIDE + row] = sums[r + h][j][i];
                }
        __syncthreads();
        for (u32 e = threadIdx.x; e < NT * 16; e += WARPS * 32) {
            const u32 row = e % 16, token = token0 + e / 16;
            if (token >= tokens) break;
            float total[TOGETHER];
#pragma unroll
            for (int h = 0; h < TOGETHER; h++) {
                total[h] = 0.0f;
#pragma unroll
                for (int from = 0; from < WARPS; from++)
                    total[h] += partial[((from * TOGETHER + h) * NT + e / 16) * STRIDE + row];
            }
            const u32 tile = blockIdx.y * R + r;
            if (END == SWIGLU) {
                const float g = total[0], u = total[TOGETHER - 1];
                const u64 at = u64(token) * (rows / 2) + tile / 2 * 16 + row;
                static_cast<bf16*>(y)[at] = float_to_bf16(g / (1.0f + expf(-g)) * u);
            } else {
                float* out = static_cast<float*>(y) + u64(token) * rows + tile * 16 + row;
                *out = END == ADD ? *out + total[0] : total[0];
            }
        }
    }
}

// gemm_TOKENS_TILES_END. Grid: token tiles, rows / (16 R). Block: 256. Shared memory: the larger of ring and partial sums.
// x has rows up to the next multiple of TOKENS, whatever they hold.
#define GEMM(NT, R, STAGES, END, NAME)                                                                          \
    KERNEL void __launch_bounds__(WARPS * 32)                                                                   \
        NAME(const uint4* w, const bf16* x, void* y, u32 rows, u32 k, u32 tokens) {                             \
        gemm<NT, R, STAGES, END>(w, x, y, rows, k, tokens);                                                     \
    }

#define FAMILY(NT, R, STAGES)                          \
    GEMM(NT, 1, 6, STORE, gemm_##NT##_1_store)         \
    GEMM(NT, 1, 6, ADD, gemm_##NT##_1_add)             \
    GEMM(NT, 2, 4, SWIGLU, gemm_##NT##_2_swiglu)       \
    GEMM(NT, R, STAGES, STORE, gemm_##NT##_##R##_store) \
    GEMM(NT, R, STAGES, ADD, gemm_##NT##_##R##_add)

FAMILY(8, 2, 4)
FAMILY(16, 4, 3)
FAMILY(32, 4, 3)
FAMILY(64, 4, 3)
GEMM(16, 4, 3, SWIGLU, gemm_16_4_swiglu)
GEMM(32, 4, 3, SWIGLU, gemm_32_4_swiglu)
GEMM(64, 4, 3, SWIGLU, gemm_64_4_swiglu)
