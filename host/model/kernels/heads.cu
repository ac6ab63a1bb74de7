// Heads beside a decoder: what they read of a row, and what happens between their matrix products (gemm.cu). No kernel mixes rows.
//
// Products take whole pieces of 32 columns, so rows lie `stride` apart, and columns that are nobody's hold zeros.
#include "device.cuh"

// Stores the rounded value and what rounding left: together they have twice the digits of one bf16.
__device__ __forceinline__ void split(float value, bf16& upper, bf16& lower) {
    upper = float_to_bf16(value);
    const float rounded = bf16_to_float(upper);
    // An infinity leaves nothing; taken from itself it would be no number.
    lower = fabsf(rounded) < __uint_as_float(0x7f800000u) ? float_to_bf16(value - rounded) : bf16(0);
}

// store(i, (load(i) - mean) / sqrt(variance + eps) weight[i] + bias[i]) for i below `width`. For blocks of 256.
template <class Load, class Store>
__device__ __forceinline__ void layer_norm(Load load, Store store, const float* weight, const float* bias, u32 width,
                                           float eps) {
    __shared__ float means[8], variances[8];
    float sum = 0.0f, squares = 0.0f;
    for (u32 i = threadIdx.x; i < width; i += 256) sum += load(i);
    const float mean = block_sum(sum, means) / float(width);
    for (u32 i = threadIdx.x; i < width; i += 256) {
        const float d = load(i) - mean;
        squares += d * d;
    }
    const float scale = 1.0f / sqrtf(block_sum(squares, variances) / float(width) + eps);
    for (u32 i = threadIdx.x; i < width; i += 256) store(i, (load(i) - mean) * scale * weight[i] + bias[i]);
}

// out[row][at + i], i below `width`: the row's hidden state, or where `hidden` is null the embedding of its candidate; after a layer
// norm where `weight` is not null; then zeros up to `fill` columns. The candidate is the greedy one, or that of `drawn` where it is
// not null. hidden: [rows, width]; table: packed, [vocabulary, width]. Grid: rows. Block: 256.
KERNEL void __launch_bounds__(256)
    head_input(bf16* out, u32 stride, u32 at, u32 fill, const bf16* hidden, const uint4* table, const Part* greedy,
               const u32* drawn, u32 vocabulary, const float* weight, const float* bias, u32 width, float eps) {
    const u32 row = blockIdx.x;
    bf16* to = out + u64(row) * stride + at;
    u32 token = drawn ? drawn[row] : greedy[row].token;
    // Rows without a distribution have no candidate, and nobody reads their scores.
    if (token >= vocabulary) token = 0;
    const bf16* elements = reinterpret_cast<const bf16*>(table);
    auto load = [&](u32 i) {
        return bf16_to_float(hidden ? hidden[u64(row) * width + i] : elements[packed_piece(token, i / 8, width) * 8 + i % 8]);
    };
    auto store = [&](u32 i, float value) { to[i] = float_to_bf16(value); };
    if (weight) {
        layer_norm(load, store, weight, bias, width, eps);
    } else {
        for (u32 i = threadIdx.x; i < width; i += 256) store(i, load(i));
    }
    for (u32 i = width + threadIdx.x; i < fill; i += 256) to[i] = 0;
}

// out[row][at + i] and out[row][at + top + i], i below `top`: the two parts of the i-th largest logit, or of its probability among
// these; then zeros up to `fill` columns. ranks: [rows, KEPT]. Grid: rows. Block: 128.
KERNEL void __launch_bounds__(128)
    head_logits(bf16* out, u32 stride, u32 at, u32 fill, const u64* ranks, u32 top, u32 probabilities) {
    __shared__ float values[KEPT];
    const u32 i = threadIdx.x;
    const u64* of = ranks + u64(blockIdx.x) * KEPT;
    bf16* to = out + u64(blockIdx.x) * stride + at;
    float value = 0.0f;
    if (i < top) value = logit_of(of[i]);
    if (probabilities) {
        if (i < top) values[i] = value = expf(value - logit_of(of[0]));
        __syncthreads();
        float sum = 0.0f;
        for (u32 other = 0; other < top; other++) sum += values[other];
        value /= sum;
    }
    if (i < top) split(value, to[i], to[top + i]);
    for (u32 column = 2 * top + i; column < fill; column += 128) to[column] = 0;
}

#define IDENTITY 0
#define RELU 1
#define GELU 2
#define SILU 3

__device__ __forceinline__ float activate(float v, u32 activation) {
    switch (activation) {
        case RELU: return fmaxf(v, 0.0f);
        case GELU: return 0.5f * v * (1.0f + erff(v * 0.70710678f));
        case SILU: return v / (1.0f + expf(-v));
        default: return v;
    }
}

// activation(x + bias), rounded to out[row][at + i], or back to x where `out` is null. x: [rows, width]. Without a `bias` it is 0.
// Grid: rows. Block: 256.
KERNEL void __launch_bounds__(256)
    head_bias(float* x, const float* bias, u32 width, u32 activation, bf16* out, u32 stride, u32 at) {
    float* from = x + u64(blockIdx.x) * width;
    bf16* to = out ? out + u64(blockIdx.x) * stride + at : nullptr;
    for (u32 i = threadIdx.x; i < width; i += 256) {
        const float value = activate(bias ? from[i] + bias[i] : from[i], activation);
        if (to)
            to[i] = float_to_bf16(value);
        else
            from[i] = value;
    }
}

// The layer norm of a row's first `width` columns, then zeros. x and out: [rows, stride]. Grid: rows. Block: 256.
KERNEL void __launch_bounds__(256)
    head_norm(bf16* out, const float* x, const float* weight, const float* bias, u32 width, u32 stride, float eps) {
    const float* from = x + u64(blockIdx.x) * stride;
    bf16* to = out + u64(blockIdx.x) * stride;
    auto load = [&](u32 i) { return from[i]; };
    auto store = [&](u32 i, float value) { to[i] = float_to_bf16(value); };
    layer_norm(load, store, weight, bias, width, eps);
    for (u32 i = width + threadIdx.x; i < stride; i += 256) to[i] = 0;
}

// scores[row][slot]: the logistic function of the one output, or of several the softmax probability of the last.
// y: [rows, stride]; scores: [rows, slots]. Grid: rows / 32. Block: 32.
KERNEL void head_scores(float* scores, u32 slots, u32 slot, const float* y, const float* bias, u32 classes, u32 stride,
                        u32 rows) {
    const u32 row = blockIdx.x * 32 + threadIdx.x;
    if (row >= rows) return;
    const float* outputs = y + u64(row) * stride;
    const float last = outputs[classes - 1] + bias[classes - 1];
    float sum = 0.0f;
    for (u32 i = 0; i < classes; i++) sum += expf(outputs[i] + bias[i] - last);
    scores[u64(row) * slots + slot] = 1.0f / (classes == 1 ? 1.0f + expf(-last) : sum);
}
