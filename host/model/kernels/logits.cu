// From rows of logits to what the host needs of them: the greedy candidate, the sums that entropies and probabilities
// follow from, and the largest logits in order. Logits: [rows, stride], of which the first `vocabulary` count.
#include "device.cuh"

#define CHUNK 4096
#define SORTED 2048

// One part a chunk of 4,096 logits. Grid: chunks, rows. Block: 256.
KERNEL void __launch_bounds__(256) part_logits(Part* parts, const float* logits, u32 vocabulary, u32 stride) {
    __shared__ float maxima[256];
    __shared__ u32 tokens[256];
    __shared__ double sums[256], weights[256];
    __shared__ u32 broken;
    const u32 begin = blockIdx.x * CHUNK, end = min(begin + CHUNK, vocabulary), i = threadIdx.x;
    const float* row = logits + u64(blockIdx.y) * stride;
    if (i == 0) broken = 0;
    __syncthreads();
    float max = NEGATIVE_INFINITY;
    u32 token = 0xffffffffu;
    for (u32 at = begin + i; at < end; at += 256) {
        const float z = row[at];
        if (!(z < __uint_as_float(0x7f800000u))) broken = 1;
        if (z > max) {
            max = z;
            token = at;
        }
    }
    maxima[i] = max;
    tokens[i] = token;
    __syncthreads();
    for (u32 step = 128; step > 0; step /= 2) {
        if (i < step) {
            const float other = maxima[i + step];
            if (other > maxima[i] || (other == maxima[i] && tokens[i + step] < tokens[i])) {
                maxima[i] = other;
                tokens[i] = tokens[i + step];
            }
        }
        __syncthreads();
    }
    max = maxima[0];
    double sum = 0.0, weighted = 0.0;
    for (u32 at = begin + i; at < end; at += 256) {
        const float d = row[at] - max, e = expf(d);
        // A probability of 0 adds nothing; with d = -inf the product would be NaN.
        if (e > 0.0f) {
            sum += e;
            weighted += double(d) * e;
        }
    }
    sums[i] = sum;
    weights[i] = weighted;
    __syncthreads();
    for (u32 step = 128; step > 0; step /= 2) {
        if (i < step) {
            sums[i] += sums[i + step];
            weights[i] += weights[i + step];
        }
        __syncthreads();
    }
    if (i == 0) {
        Part part;
        part.sum = sums[0];
        part.weighted = weights[0];
        part.max = max;
        part.token = tokens[0];
        part.finite = !broken;
        part.unused = 0;
        parts[u64(blockIdx.y) * gridDim.x + blockIdx.x] = part;
    }
}

// A row's parts become one, in their order. Grid: rows. Block: 1.
KERNEL void join_parts(Part* rows, const Part* parts, u32 chunks) {
    const Part* from = parts + u64(blockIdx.x) * chunks;
    Part all = from[0];
    for (u32 chunk = 1; chunk < chunks; chunk++) {
        all.finite = all.finite && from[chunk].finite;
        if (from[chunk].max > all.max) {
            all.max = from[chunk].max;
            all.token = from[chunk].token;
        }
    }
    all.sum = 0.0;
    all.weighted = 0.0;
    for (u32 chunk = 0; chunk < chunks; chunk++) {
        const double lower = double(from[chunk].max) - double(all.max), scale = exp(lower);
        if (scale > 0.0) {
            all.sum += scale * from[chunk].sum;
            all.weighted += scale * (from[chunk].weighted + lower * from[chunk].sum);
        }
    }
    if (!(all.max > NEGATIVE_INFINITY)) all.finite = 0;
    rows[blockIdx.x] = all;
}

// Larger for what comes first: descending logit, of equal ones ascending token. Zeros of either sign are equal.
__device__ __forceinline__ u64 rank(float z, u32 token) {
    const u32 bits = __float_as_uint(z == 0.0f ? 0.0f : z);
    const u32 ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (u64(ordered) << 32) | (0xffffffffu - token);
}

// Sorts 2,048 ranks in shared memory, the largest first (Batcher's bitonic network), and writes the first 128.
__device__ __forceinline__ void sort_and_keep(u64* ranks, u64* out) {
    for (u32 size = 2; size <= SORTED; size *= 2)
        for (u32 step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            const u32 pair = threadIdx.x, a = pair / step * step * 2 + pair % step, b = a + step;
            const bool descending = (a & size) == 0;
            const u64 left = ranks[a], right = ranks[b];
            if ((left < right) == descending) {
                ranks[a] = right;
                ranks[b] = left;
            }
        }
    __syncthreads();
    if (threadIdx.x < KEPT) out[threadIdx.x] = ranks[threadIdx.x];
}

// The 128 largest of every 2,048 logits; 0 where there are fewer. out: [rows, chunks, 128]. Grid: chunks, rows. Block: 1024.
KERNEL void __launch_bounds__(1024) top_of_logits(u64* out, const float* logits, u32 vocabulary, u32 stride) {
    __shared__ u64 ranks[SORTED];
    const float* row = logits + u64(blockIdx.y) * stride;
    for (u32 i = threadIdx.x; i < SORTED; i += 1024) {
        const u32 token = blockIdx.x * SORTED + i;
        ranks[i] = token < vocabulary ? rank(row[token], token) : 0;
    }
    sort_and_keep(ranks, out + (u64(blockIdx.y) * gridDim.x + blockIdx.x) * KEPT);
}

// The 128 largest of every 2,048 ranks. in: [rows, count], out: [rows, chunks, 128]. Grid: chunks, rows. Block: 1024.
KERNEL void __launch_bounds__(1024) top_of_ranks(u64* out, const u64* in, u32 count) {
    __shared__ u64 ranks[SORTED];
    for (u32 i = threadIdx.x; i < SORTED; i += 1024) {
        const u32 at = blockIdx.x * SORTED + i;
        ranks[i] = at < count ? in[u64(blockIdx.y) * count + at] : 0;
    }
    sort_and_keep(ranks, out + (u64(blockIdx.y) * gridDim.x + blockIdx.x) * KEPT);
}
