// Attention of a step's tokens over the paged KV pool, in partitions of 256 positions that are combined in their order
// (flash decoding, Dao et al., 2023). Partitions and the order within them depend on a token's position alone.
#include "device.cuh"

#define PARTITION 256
#define THREADS 128

// One partition of one token for up to G query heads that share a key head. q: the queries of qkv, [tokens, qkv_width].
// sums: [tokens, heads, partitions, D], not divided; marks: the same without D, (largest scaled score, sum of weights).
// token0 is the first token of this launch. Grid: partitions, kv_heads × groups of G, tokens.
template <int D, int G>
__device__ __forceinline__ void attend(float* sums, float2* marks, const float* q, const bf16* pool,
                                       const int* positions, const u32* rows, const u32* table_starts, const u32* table,
                                       u32 heads, u32 kv_heads, u32 qkv_width, u32 token0) {
    constexpr u32 LANES = D / 8;             // that share a position, 8 elements each
    constexpr u32 GROUPS = THREADS / LANES;  // positions at once
    __shared__ float scores[G][PARTITION];
    __shared__ float scratch[GROUPS][D];

    const u32 token = token0 + blockIdx.z, start = blockIdx.x * PARTITION;
    const int position = positions[token];
    if (position == PADDING || u32(position) < start) return;
    const u32 count = min(u32(PARTITION), u32(position) + 1 - start);
    const u32 group_heads = heads / kv_heads, parts = (group_heads + G - 1) / G;
    const u32 kv_head = blockIdx.y / parts, first = blockIdx.y % parts * G;
    const u32 used = min(u32(G), group_heads - first);
    const u32 head0 = kv_head * group_heads + first;
    const u32 group = threadIdx.x / LANES, sub = threadIdx.x % LANES;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32* blocks = table + table_starts[rows[token]] + start / KV_BLOCK;
    // The key (part 0) or value (part 1) elements of this thread at a position of the partition.
    auto piece = [&](u32 j, u32 part) {
        const u64 block = blocks[j / KV_BLOCK];
        const bf16* at = pool + (((block * 2 + part) * kv_heads + kv_head) * KV_BLOCK + j % KV_BLOCK) * D + sub * 8;
        return *reinterpret_cast<const uint4*>(at);
    };

    float query[G][8];
#pragma unroll
    for (u32 g = 0; g < G; g++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            query[g][i] = g < used ? q[u64(token) * qkv_width + (head0 + g) * D + sub * 8 + i] : 0.0f;

    const float scale = 1.0f / sqrtf(float(D));
    for (u32 base = 0; base < count; base += GROUPS) {
        const u32 j = base + group;
        float key[8] = {};
        if (j < count) unpack(piece(j, 0), key);
#pragma unroll
        for (u32 g = 0; g < G; g++) {
            if (g >= used) break;
            float score = 0.0f;
#pragma unroll
            for (int i = 0; i < 8; i++) score = fmaf(query[g][i], key[i], score);
            score = group_sum<LANES>(score);
            if (sub == 0 && j < count) scores[g][j] = score * scale;
        }
    }
    __syncthreads();

    for (u32 g = warp; g < used; g += THREADS / 32) {
        float largest = NEGATIVE_INFINITY;
        for (u32 j = lane; j < count; j += 32) largest = fmaxf(largest, scores[g][j]);
        largest = warp_max(largest);
        float sum = 0.0f;
        for (u32 j = lane; j < count; j += 32) {
            const float weight = expf(scores[g][j] - largest);
            scores[g][j] = weight;
            sum += weight;
        }
        sum = group_sum<32>(sum);
        if (lane == 0)
            marks[(u64(blockIdx.z) * heads + head0 + g) * gridDim.x + blockIdx.x] = make_float2(largest, sum);
    }
    __syncthreads();

    float out[G][8] = {};
    for (u32 j = group; j < count; j += GROUPS) {
        float value[8];
        unpack(piece(j, 1), value);
#pragma unroll
        for (u32 g = 0; g < G; g++) {
            if (g >= used) break;
            const float weight = scores[g][j];
#pragma unroll
            for (int i = 0; i < 8; i++) out[g][i] = fmaf(weight, value[i], out[g][i]);
        }
    }
#pragma unroll
    for (u32 g = 0; g < G; g++) {
        if (g >= used) break;
#pragma unroll
        for (int i = 0; i < 8; i++) scratch[group][sub * 8 + i] = out[g][i];
        __syncthreads();
        if (threadIdx.x < D) {
            float sum = 0.0f;
            for (u32 from = 0; from < GROUPS; from++) sum += scratch[from][threadIdx.x];
            sums[((u64(blockIdx.z) * heads + head0 + g) * gridDim.x + blockIdx.x) * D + threadIdx.x] = sum;
        }
        __syncthreads();
    }
}

#define ATTEND(D, G)                                                                                               \
    KERNEL void __launch_bounds__(THREADS)                                                                         \
        attend_##D##_##G(float* sums, float2* marks, const float* q, const bf16* pool, const int* positions,       \
                         const u32* rows, const u32* table_starts, const u32* table, u32 heads, u32 kv_heads,      \
                         u32 qkv_width, u32 token0) {                                                              \
        attend<D, G>(sums, marks, q, pool, positions, rows, table_starts, table, heads, kv_heads, qkv_width, token0); \
    }

ATTEND(32, 2)
ATTEND(32, 8)
ATTEND(64, 2)
ATTEND(64, 8)
ATTEND(128, 2)
ATTEND(128, 8)

// out[token] in bf16, [tokens, heads D]: the partitions of a head, weighed against each other in their order; zero for
// padding. Grid: heads, tokens. Block: D.
KERNEL void combine(bf16* out, const float* sums, const float2* marks, const int* positions, u32 heads,
                    u32 partitions, u32 token0) {
    const u32 head = blockIdx.x, token = token0 + blockIdx.y, d = threadIdx.x, width = blockDim.x;
    const int position = positions[token];
    float value = 0.0f;
    if (position != PADDING) {
        const u32 count = u32(position) / PARTITION + 1;
        const u64 first = (u64(blockIdx.y) * heads + head) * partitions;
        float largest = NEGATIVE_INFINITY;
        for (u32 p = 0; p < count; p++) largest = fmaxf(largest, marks[first + p].x);
        float total = 0.0f, sum = 0.0f;
        for (u32 p = 0; p < count; p++) {
            const float weight = expf(marks[first + p].x - largest);
            total += weight * marks[first + p].y;
            sum += weight * sums[(first + p) * width + d];
        }
        value = sum / total;
    }
    out[(u64(token) * heads + head) * width + d] = float_to_bf16(value);
}
