// Runs a kernel over a grid.
#pragma once

#include <cstddef>
#include <functional>

#include "shim.h"

namespace emulated {

// Runs `kernel` once for every thread of every block. One grid at a time: callers see to that.
void run_grid(Index grid, unsigned block_threads, std::size_t shared_bytes, const std::function<void()>& kernel);

}  // namespace emulated
