// What happens between the matrix products: embedding, RMS norm, and the norm and rotation of query and key heads.
#include "device.cuh"

// x[token] = table[tokens[token]], zero for padding. Grid: tokens. `table` is packed, [vocabulary, hidden].
KERNEL void __launch_bounds__(256)
    embed(float* x, const uint4* table, const u32* tokens, const int* positions, u32 hidden) {
    const u32 token = blockIdx.x;
    const bool padding = positions[token] == PADDING;
    for (u32 piece = threadIdx.x; piece < hidden / 8; piece += blockDim.x) {
        float values[8] = {};
        if (!padding) unpack(table[packed_piece(tokens[token], piece, hidden)], values);
#pragma unroll
        for (int i = 0; i < 8; i++) x[u64(token) * hidden + piece * 8 + i] = values[i];
    }
}

// out[row] = weight x / sqrt(mean(x²) + eps), bf16, for x of the row's own token, or of token places[row] where `places`
// is not null. Grid: rows.
KERNEL void __launch_bounds__(256)
    rms_norm(bf16* out, const float* x, const float* weight, const u32* places, u32 hidden, float eps) {
    __shared__ float warps[8];
    const u64 token = places ? places[blockIdx.x] : blockIdx.x;
    const float* from = x + token * hidden;
    float squares = 0.0f;
    for (u32 i = threadIdx.x; i < hidden; i += 256) squares += from[i] * from[i];
    const float scale = 1.0f / sqrtf(block_sum(squares, warps) / float(hidden) + eps);
    for (u32 i = threadIdx.x; i < hidden; i += 256)
        out[u64(blockIdx.x) * hidden + i] = float_to_bf16(from[i] * scale * weight[i]);
}

// Normalises every query and key head, turns it by its token's position, and writes keys and values into their places in
// the pool. qkv: [tokens, (heads + 2 kv_heads) head_dim]; queries are replaced. pool: [blocks, 2, kv_heads, 16, head_dim].
// turns: positions × head_dim / 2 of (cos, sin). A warp a head. Grid: heads / 4, tokens.
KERNEL void __launch_bounds__(128)
    turn_and_store(float* qkv, bf16* pool, const float* q_norm, const float* k_norm, const float2* turns,
                   const int* positions, const u32* rows, const u32* table_starts, const u32* table, u32 heads,
                   u32 kv_heads, u32 head_dim, float eps) {
    const u32 head = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32, token = blockIdx.y;
    const u32 all = heads + 2 * kv_heads, half = head_dim / 2;
    const int position = positions[token];
    if (head >= all || position == PADDING) return;
    float* values = qkv + (u64(token) * all + head) * head_dim;

    float low[2], high[2];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const u32 at = lane + 32 * i;
        low[i] = at < half ? values[at] : 0.0f;
        high[i] = at < half ? values[at + half] : 0.0f;
        squares += low[i] * low[i] + high[i] * high[i];
    }
    squares = group_sum<32>(squares);
    if (head < heads + kv_heads) {
        const float scale = 1.0f / sqrtf(squares / float(head_dim) + eps);
        const float* weight = head < heads ? q_norm : k_norm;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const u32 at = lane + 32 * i;
            if (at >= half) continue;
            const float2 turn = turns[u64(position) * half + at];
            const float a = low[i] * scale * weight[at], b = high[i] * scale * weight[at + half];
            low[i] = a * turn.x - b * turn.y;
            high[i] = a * turn.y + b * turn.x;
        }
    }
    if (head < heads) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const u32 at = lane + 32 * i;
            if (at >= half) continue;
            values[at] = low[i];
            values[at + half] = high[i];
        }
        return;
    }
    const u64 block = table[table_starts[rows[token]] + position / KV_BLOCK];
    // Key heads come first, then value heads: the order of the pool's parts.
    bf16* to = pool + ((block * 2 * kv_heads + head - heads) * KV_BLOCK + position % KV_BLOCK) * head_dim;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const u32 at = lane + 32 * i;
        if (at >= half) continue;
        to[at] = float_to_bf16(low[i]);
        to[at + half] = float_to_bf16(high[i]);
    }
}
