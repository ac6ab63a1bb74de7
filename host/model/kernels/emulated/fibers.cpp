// The threads of a block as fibers, and where they meet.
#include "fibers.h"

#include <cstdio>
#include <cstdlib>

#include "shim.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__x86_64__)

extern "C" void emulated_switch(void** save, void* load);
asm(R"(
.text
.globl emulated_switch
.type emulated_switch, @function
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulated_switch, .-emulated_switch
)");
#endif

namespace emulated {

Fiber* current;
Index block, block_size, grid_size;
unsigned char* dynamic_shared;

namespace {

constexpr std::size_t STACK_BYTES = 64 << 10;
constexpr std::size_t THREADS_MAX = 1024;

struct Warp {
    unsigned arrived, generation;
    Collective kind;
    // In turn: a lane may bring a slot to the next collective while another still reads this one.
    Slot slots[2][32];
};

std::vector<Fiber> fibers(THREADS_MAX);
std::vector<Warp> warps(THREADS_MAX / 32);
unsigned threads, alive, arrived, generation;
unsigned long long progress;
const std::function<void()>* body;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "emulated device: %s, block (%u, %u, %u), thread %u\n", what, block.x, block.y, block.z,
                 current ? current->thread.x : 0);
    std::abort();
}

#if defined(__x86_64__)

void* main_stack;

void enter();

void prepare(Fiber& fiber, unsigned char* stack) {
    // As if emulated_switch had been called at the entry: six registers and where to return to. The stack is 16-byte aligned
    // before the call that never was.
    void** top = reinterpret_cast<void**>(stack + STACK_BYTES) - 2;
    *top = reinterpret_cast<void*>(enter);
    fiber.stack_pointer = top - 6;
}

void go(Fiber* from, Fiber* to) {
    void** save = from ? &from->stack_pointer : &main_stack;
    current = to;
    emulated_switch(save, to ? to->stack_pointer : main_stack);
}

#else

std::vector<ucontext_t> contexts(THREADS_MAX);
ucontext_t main_context;

void enter();

void prepare(Fiber& fiber, unsigned char* stack) {
    ucontext_t& context = contexts[fiber.thread.x];
    getcontext(&context);
    context.uc_stack = {stack, 0, STACK_BYTES};
    context.uc_link = nullptr;
    makecontext(&context, enter, 0);
}

void go(Fiber* from, Fiber* to) {
    current = to;
    swapcontext(from ? &contexts[from->thread.x] : &main_context, to ? &contexts[to->thread.x] : &main_context);
}

#endif

// Lets the next thread that has not ended run.
void yield() {
    Fiber* self = current;
    static unsigned long long seen = 0, turns = 0;
    if (progress != seen) {
        seen = progress;
        turns = 0;
    } else if (++turns > 4ull * threads + 4) {
        fail("threads wait for each other: a barrier or collective that not all reach");
    }
    unsigned next = self->thread.x;
    do next = next + 1 == threads ? 0 : next + 1;
    while (fibers[next].done && &fibers[next] != self);
    if (&fibers[next] != self) go(self, &fibers[next]);
}

void enter() {
    (*body)();
    Fiber* self = current;
    if (!self->open.empty()) fail("a copy was never committed");
    self->done = true;
    alive--;
    progress++;
    if (alive == 0) go(self, nullptr);
    // Threads that have ended count as arrived.
    if (arrived == alive) {
        arrived = 0;
        generation++;
    }
    yield();
    fail("a thread that has ended runs");
}

float bf16(std::uint32_t word, int half) {
    return __uint_as_float(half ? word & 0xffff0000u : word << 16);
}

// mma.m16n8k16: which lane and register holds which element, from the PTX manual.
void multiply(Slot* slots) {
    float a[16][16], b[16][8];
    for (int lane = 0; lane < 32; lane++) {
        const int group = lane / 4, pair = lane % 4 * 2;
        for (int half = 0; half < 2; half++) {
            for (int r = 0; r < 4; r++) a[group + r % 2 * 8][pair + half + r / 2 * 8] = bf16(slots[lane].a[r], half);
            for (int r = 0; r < 2; r++) b[pair + half + r * 8][group] = bf16(slots[lane].b[r], half);
        }
    }
    // Column by column of a vector, which compilers know to compute at once; every sum in the order of k.
    float d[16][8];
    auto each = [&](auto&& element) {
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) element(d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2], slots[lane].d[i]);
    };
    each([](float& in, float& out) { in = out; });
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++) d[row][column] += a[row][k] * b[k][column];
    each([](float& in, float& out) { out = in; });
}

}  // namespace

void block_barrier() {
    const unsigned mine = generation;
    if (++arrived == alive) {
        arrived = 0;
        generation++;
        progress++;
        return;
    }
    while (generation == mine) yield();
}

const Slot* meet(Collective kind, const Slot& mine) {
    Warp& warp = warps[current->warp];
    const unsigned generation = warp.generation;
    Slot* slots = warp.slots[generation % 2];
    if (warp.arrived == 0) warp.kind = kind;
    if (warp.kind != kind) fail("lanes of a warp are in different collectives");
    slots[current->lane] = mine;
    if (++warp.arrived == 32) {
        if (kind == PRODUCT) multiply(slots);
        warp.arrived = 0;
        warp.generation++;
        progress++;
    } else {
        while (warp.generation == generation) yield();
    }
    return slots;
}

void copy_wait_for(std::size_t left) {
    auto& groups = current->groups;
    while (groups.size() > left) {
        for (const Copy& copy : groups.front()) std::memcpy(copy.to, copy.from, 16);
        groups.erase(groups.begin());
    }
}

void run_grid(Index grid, unsigned block_threads, std::size_t shared_bytes, const std::function<void()>& kernel) {
    static std::vector<unsigned char> stacks(THREADS_MAX * STACK_BYTES);
    constexpr std::size_t GUARD = 64;
    std::vector<unsigned char> shared(shared_bytes + GUARD + 16);
    if (block_threads == 0 || block_threads > THREADS_MAX) fail("a block has 1 to 1024 threads");
    dynamic_shared = shared.data() + (16 - reinterpret_cast<std::uintptr_t>(shared.data()) % 16) % 16;
    body = &kernel;
    threads = block_threads;
    block_size = {block_threads, 1, 1};
    grid_size = grid;
    for (block.z = 0; block.z < grid.z; block.z++)
        for (block.y = 0; block.y < grid.y; block.y++)
            for (block.x = 0; block.x < grid.x; block.x++) {
                std::memset(dynamic_shared, 0xff, shared_bytes + GUARD);
                alive = threads;
                arrived = 0;
                for (unsigned i = 0; i < threads; i++) {
                    Fiber& fiber = fibers[i];
                    fiber.thread = {i, 0, 0};
                    fiber.lane = i % 32;
                    fiber.warp = i / 32;
                    fiber.done = false;
                    fiber.groups.clear();
                    prepare(fiber, stacks.data() + i * STACK_BYTES);
                }
                for (Warp& warp : warps) warp.arrived = 0;
                go(nullptr, &fibers[0]);
                for (std::size_t i = 0; i < GUARD; i++)
                    if (dynamic_shared[shared_bytes + i] != 0xff) fail("a write beyond shared memory");
            }
}

}  // namespace emulated
