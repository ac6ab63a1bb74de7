// CUDA C++ on a CPU, as far as the kernels here use it: every thread of a block is a fiber, blocks run one after the
// other. Built to find faults, not for speed:
//   * a read of device or dynamic shared memory that nothing wrote gives NaN,
//   * an asynchronous copy arrives at the wait that awaits it and not earlier,
//   * threads of a warp that do not meet in the same collective end the program, as does a write beyond a buffer.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace emulated {

struct Index {
    unsigned x, y, z;
};

// A copy to shared memory that has not arrived.
struct Copy {
    void* to;
    const void* from;
};

// One thread of a block.
struct Fiber {
    void* stack_pointer;
    Index thread;
    unsigned lane, warp;
    bool done;
    std::vector<Copy> open;                // not committed
    std::vector<std::vector<Copy>> groups;  // committed
};

// What a lane brings to a collective of its warp and takes from it.
struct Slot {
    float value;
    float d[4];
    std::uint32_t a[4], b[2];
};

extern Fiber* current;
extern Index block, block_size, grid_size;
extern unsigned char* dynamic_shared;

// Waits for all threads of the block that have not ended.
void block_barrier();

enum Collective { SHUFFLE, PRODUCT };

// Brings a slot to the warp's collective and waits for all 32; the last to come computes. Returns all slots.
const Slot* meet(Collective kind, const Slot& mine);

void copy_wait_for(std::size_t left);

}  // namespace emulated

#define KERNEL extern "C"
#define DYNAMIC_SHARED(name) unsigned char* name = emulated::dynamic_shared
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define threadIdx (emulated::current->thread)
#define blockIdx (emulated::block)
#define blockDim (emulated::block_size)
#define gridDim (emulated::grid_size)

struct alignas(16) uint4 {
    std::uint32_t x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};

inline float2 make_float2(float x, float y) { return {x, y}; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }

inline float __uint_as_float(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

inline std::uint32_t __float_as_uint(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

inline void __syncthreads() { emulated::block_barrier(); }

inline float __shfl_xor_sync(unsigned, float value, int mask) {
    emulated::Slot slot{};
    slot.value = value;
    return emulated::meet(emulated::SHUFFLE, slot)[emulated::current->lane ^ unsigned(mask)].value;
}

inline void copy_async(void* to, const void* from) { emulated::current->open.push_back({to, from}); }

inline void copy_commit() {
    emulated::current->groups.push_back(std::move(emulated::current->open));
    emulated::current->open.clear();
}

template <int N>
inline void copy_wait() {
    emulated::copy_wait_for(N);
}

inline void multiply_add(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
                         std::uint32_t b0, std::uint32_t b1) {
    emulated::Slot slot{0.0f, {d[0], d[1], d[2], d[3]}, {a0, a1, a2, a3}, {b0, b1}};
    const emulated::Slot& result = emulated::meet(emulated::PRODUCT, slot)[emulated::current->lane];
    for (int i = 0; i < 4; i++) d[i] = result.d[i];
}
