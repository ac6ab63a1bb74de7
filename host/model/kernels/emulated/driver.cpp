// A CUDA driver without a device: the functions of libcuda that the host calls, with the kernels run on the CPU. Built as
// libcuda.so.1 by tests, so that everything but the hardware is the real thing: loading, memory, launches, capture and replay.
//
// Where it is stricter than a driver: memory is handed out full of NaN, and a write beyond a buffer is found when it is freed.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../attention.cu"
#include "../gemm.cu"
#include "../heads.cu"
#include "../logits.cu"
#include "../norm.cu"
#include "../random.cu"
#include "fibers.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

typedef int CUresult;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500, INVALID_HANDLE = 400, UNSUPPORTED = 801 };

namespace {

using Launch = std::function<void()>;
using Kernel = std::function<Launch(void**)>;

// Takes a kernel's arguments out of the driver's array, as copies: a graph keeps them.
template <class... A, std::size_t... I>
Launch keep(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    return [=, taken = std::make_tuple(*static_cast<A*>(arguments[I])...)] { std::apply(kernel, taken); };
}

template <class... A>
Kernel entry(void (*kernel)(A...)) {
    return [=](void** arguments) { return keep(kernel, arguments, std::index_sequence_for<A...>()); };
}

#define ENTRY(name) {#name, entry(name)}
#define GEMMS(NT, R)                                                                                        \
    ENTRY(gemm_##NT##_1_store), ENTRY(gemm_##NT##_1_add), ENTRY(gemm_##NT##_2_swiglu), ENTRY(gemm_##NT##_##R##_store), \
        ENTRY(gemm_##NT##_##R##_add)

const std::map<std::string, Kernel> kernels = {
    GEMMS(8, 2), GEMMS(16, 4), GEMMS(32, 4), GEMMS(64, 4), ENTRY(gemm_16_4_swiglu), ENTRY(gemm_32_4_swiglu),
    ENTRY(gemm_64_4_swiglu), ENTRY(embed), ENTRY(rms_norm), ENTRY(turn_and_store), ENTRY(attend_32_2),
    ENTRY(attend_32_8), ENTRY(attend_64_2), ENTRY(attend_64_8), ENTRY(attend_128_2), ENTRY(attend_128_8),
    ENTRY(combine), ENTRY(part_logits), ENTRY(join_parts), ENTRY(top_of_logits), ENTRY(top_of_ranks),
    ENTRY(fill_random), ENTRY(fill), ENTRY(head_input), ENTRY(head_logits), ENTRY(head_bias), ENTRY(head_norm),
    ENTRY(head_scores),
};

struct Function {
    Kernel kernel;
    std::size_t dynamic_shared_max = 48 << 10;
};

using Graph = std::vector<Launch>;

struct Stream {
    std::unique_ptr<Graph> captured;
};

constexpr std::size_t MEMORY_BYTES = 512 << 20;
constexpr std::size_t GUARD = 256;
constexpr unsigned char POISON = 0xff;

std::recursive_mutex lock;
std::size_t used_bytes;
std::map<void*, std::size_t> buffers;

CUresult run(Stream* stream, Launch launch) {
    if (stream && stream->captured) {
        stream->captured->push_back(std::move(launch));
        return SUCCESS;
    }
    launch();
    return SUCCESS;
}

void* allocate(std::size_t bytes) {
    unsigned char* base = static_cast<unsigned char*>(std::aligned_alloc(256, (bytes + 2 * GUARD + 255) / 256 * 256));
    if (!base) return nullptr;
    std::memset(base, POISON, bytes + 2 * GUARD);
    buffers[base + GUARD] = bytes;
    return base + GUARD;
}

void release(void* buffer) {
    auto found = buffers.find(buffer);
    if (found == buffers.end()) return;
    unsigned char* base = static_cast<unsigned char*>(buffer) - GUARD;
    for (std::size_t i = 0; i < GUARD; i++)
        if (base[i] != POISON || base[GUARD + found->second + i] != POISON) {
            std::fprintf(stderr, "emulated device: a write beyond a buffer of %zu bytes\n", found->second);
            std::abort();
        }
    buffers.erase(found);
    std::free(base);
}

}  // namespace

#define GUARDED std::lock_guard<std::recursive_mutex> guard(lock)

EXPORT CUresult cuInit(unsigned) { return SUCCESS; }
EXPORT CUresult cuDriverGetVersion(int* version) { *version = 13000; return SUCCESS; }
EXPORT CUresult cuDeviceGetCount(int* count) { *count = 1; return SUCCESS; }
EXPORT CUresult cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? SUCCESS : 101;
}
EXPORT CUresult cuDeviceGetName(char* name, int length, int) {
    std::snprintf(name, length, "emulated device");
    return SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem_v2(std::size_t* bytes, int) { *bytes = MEMORY_BYTES; return SUCCESS; }
EXPORT CUresult cuDeviceGetAttribute(int* value, int attribute, int) {
    // Compute capability 8.0, no memory pools, one multiprocessor.
    *value = attribute == 75 ? 8 : attribute == 16 ? 1 : 0;
    return SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(void** context, int) { *context = reinterpret_cast<void*>(1); return SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(void*) { return SUCCESS; }
EXPORT CUresult cuCtxGetCurrent(void** context) { *context = reinterpret_cast<void*>(1); return SUCCESS; }
EXPORT CUresult cuCtxSynchronize() { return SUCCESS; }

EXPORT CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
    GUARDED;
    *free = MEMORY_BYTES - used_bytes;
    *total = MEMORY_BYTES;
    return SUCCESS;
}
EXPORT CUresult cuMemAlloc_v2(void** pointer, std::size_t bytes) {
    GUARDED;
    if (bytes == 0) return INVALID_VALUE;
    if (bytes > MEMORY_BYTES - used_bytes) return OUT_OF_MEMORY;
    *pointer = allocate(bytes);
    if (!*pointer) return OUT_OF_MEMORY;
    used_bytes += bytes;
    return SUCCESS;
}
EXPORT CUresult cuMemFree_v2(void* pointer) {
    GUARDED;
    auto found = buffers.find(pointer);
    if (found == buffers.end()) return INVALID_VALUE;
    used_bytes -= found->second;
    release(pointer);
    return SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
    GUARDED;
    *pointer = allocate(bytes);
    return *pointer ? SUCCESS : OUT_OF_MEMORY;
}
EXPORT CUresult cuMemFreeHost(void* pointer) {
    GUARDED;
    release(pointer);
    return SUCCESS;
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(void* to, const void* from, std::size_t bytes, Stream* stream) {
    GUARDED;
    return run(stream, [=] { std::memcpy(to, from, bytes); });
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, const void* from, std::size_t bytes, Stream* stream) {
    GUARDED;
    return run(stream, [=] { std::memcpy(to, from, bytes); });
}
EXPORT CUresult cuMemsetD8Async(void* to, unsigned char value, std::size_t bytes, Stream* stream) {
    GUARDED;
    return run(stream, [=] { std::memset(to, value, bytes); });
}

EXPORT CUresult cuModuleLoadData(void** module, const void* image) {
    // The PTX is what a real driver would compile; here it only must be one.
    *module = reinterpret_cast<void*>(1);
    return std::strstr(static_cast<const char*>(image), ".version") ? SUCCESS : 200;
}
EXPORT CUresult cuModuleUnload(void*) { return SUCCESS; }
EXPORT CUresult cuModuleGetFunction(Function** function, void*, const char* name) {
    auto found = kernels.find(name);
    if (found == kernels.end()) return NOT_FOUND;
    *function = new Function{found->second};
    return SUCCESS;
}
EXPORT CUresult cuFuncSetAttribute(Function* function, int attribute, int value) {
    // 163 KiB: what a block may have at compute capability 8.0.
    if (attribute != 8) return UNSUPPORTED;
    if (value > 163 << 10) return INVALID_VALUE;
    function->dynamic_shared_max = value;
    return SUCCESS;
}
EXPORT CUresult cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared_bytes, Stream* stream, void** arguments, void** extra) {
    GUARDED;
    if (extra || by != 1 || bz != 1 || bx == 0 || bx > 1024) return INVALID_VALUE;
    if (gx == 0 || gy == 0 || gz == 0 || gy > 65535 || gz > 65535) return INVALID_VALUE;
    if (shared_bytes > function->dynamic_shared_max) return INVALID_VALUE;
    Launch body = function->kernel(arguments);
    return run(stream, [=] { emulated::run_grid({gx, gy, gz}, bx, shared_bytes, body); });
}

EXPORT CUresult cuStreamCreate(Stream** stream, unsigned) { *stream = new Stream; return SUCCESS; }
EXPORT CUresult cuStreamDestroy_v2(Stream* stream) { delete stream; return SUCCESS; }
EXPORT CUresult cuStreamSynchronize(Stream* stream) {
    // Not allowed while capturing, and it must be seen.
    return stream && stream->captured ? 900 : SUCCESS;
}
EXPORT CUresult cuStreamBeginCapture_v2(Stream* stream, int) {
    stream->captured = std::make_unique<Graph>();
    return SUCCESS;
}
EXPORT CUresult cuStreamEndCapture(Stream* stream, Graph** graph) {
    *graph = stream->captured.release();
    return *graph ? SUCCESS : INVALID_HANDLE;
}
EXPORT CUresult cuGraphInstantiateWithFlags(Graph** exec, Graph* graph, unsigned long long) {
    *exec = new Graph(*graph);
    return SUCCESS;
}
EXPORT CUresult cuGraphLaunch(Graph* exec, Stream*) {
    GUARDED;
    for (const Launch& launch : *exec) launch();
    return SUCCESS;
}
EXPORT CUresult cuGraphExecDestroy(Graph* exec) { delete exec; return SUCCESS; }
EXPORT CUresult cuGraphDestroy(Graph* graph) { delete graph; return SUCCESS; }

EXPORT CUresult cuGetErrorName(CUresult code, const char** text) {
    *text = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 101 ? "CUDA_ERROR_INVALID_DEVICE" : "CUDA_ERROR";
    return SUCCESS;
}
EXPORT CUresult cuGetErrorString(CUresult code, const char** text) {
    *text = code == OUT_OF_MEMORY ? "out of memory" : code == 101 ? "invalid device ordinal" : "emulated error";
    return SUCCESS;
}
