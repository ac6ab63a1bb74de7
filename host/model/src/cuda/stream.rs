//! A queue of work on a device: copies, launches, and graphs recorded from it.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaStream, result, sys};

use super::kernels::Kernel;
use super::memory::{Buffer, Element, Pinned};
use super::{CudaError, Device};

/// Arguments of a launch, in the kernel's order.
#[derive(Default)]
pub(super) struct Arguments {
    words: [u64; Self::MAX],
    len: usize,
}

impl Arguments {
    /// More than any kernel takes.
    const MAX: usize = 16;

    pub(super) fn new() -> Self {
        Self::default()
    }

    fn push(mut self, word: u64) -> Self {
        self.words[self.len] = word;
        self.len += 1;
        self
    }

    /// A pointer: the start of a buffer.
    pub(super) fn buffer(self, buffer: &Buffer) -> Self {
        self.push(buffer.address())
    }

    /// A pointer; 0 is null.
    pub(super) fn address(self, address: u64) -> Self {
        self.push(address)
    }

    /// A 32-bit number. Kernels read the lower half of a word, which comes first: CUDA's hosts are little-endian.
    pub(super) fn number(self, value: usize) -> Self {
        debug_assert!(u32::try_from(value).is_ok(), "{value} is a kernel's 32-bit argument");
        self.push(value as u64)
    }

    /// A 64-bit number.
    pub(super) fn long(self, value: u64) -> Self {
        self.push(value)
    }

    /// A float.
    pub(super) fn float(self, value: f32) -> Self {
        self.push(u64::from(value.to_bits()))
    }
}

/// One stream. Work on it runs in order.
pub(super) struct Stream {
    stream: Arc<CudaStream>,
    device: Device,
}

/// Launches and copies that were recorded and can be started again as one.
pub(super) struct Graph(cudarc::driver::CudaGraph);

// SAFETY: a graph is used by the thread that holds its runner, one at a time; the driver asks for no more.
unsafe impl Send for Graph {}

impl Stream {
    pub(super) fn new(device: &Device) -> Result<Self, CudaError> {
        let stream = device
            .context
            .new_stream()
            .map_err(|error| device.failed("a stream cannot be made", error))?;
        Ok(Self {
            stream,
            device: device.clone(),
        })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.stream.cu_stream()
    }

    /// Starts a kernel. Sizes are the caller's business: a kernel touches what its arguments say.
    pub(super) fn launch(
        &self,
        kernel: Kernel,
        grid: (usize, usize, usize),
        block: usize,
        shared_bytes: usize,
        arguments: &mut Arguments,
    ) -> Result<(), CudaError> {
        let mut pointers: [*mut c_void; Arguments::MAX] = [std::ptr::null_mut(); Arguments::MAX];
        for (pointer, word) in pointers.iter_mut().zip(&mut arguments.words) {
            *pointer = std::ptr::from_mut(word).cast();
        }
        let grid = (grid.0 as u32, grid.1 as u32, grid.2 as u32);
        // SAFETY: the arguments are those of the kernel, in order and at least as wide (`forward` and `heads` are the only callers with
        // kernels of a model, `weights` and `matrix` with those that fill); buffers outlive the stream's work because steps end by waiting.
        unsafe {
            let stream = self.raw();
            result::launch_kernel(
                kernel.0,
                grid,
                (block as u32, 1, 1),
                shared_bytes as u32,
                stream,
                &mut pointers[..arguments.len],
            )
        }
        .map_err(|error| {
            self.device
                .failed(format!("a launch of {grid:?} blocks of {block} threads"), error)
        })
    }

    /// Copies the first `len` elements to the device.
    pub(super) fn upload<T: Element>(&self, from: &Pinned<T>, to: &Buffer, len: usize) -> Result<(), CudaError> {
        assert!(
            len * size_of::<T>() <= to.bytes(),
            "a copy beyond a buffer of {} bytes",
            to.bytes()
        );
        // SAFETY: in bounds; the host memory is not touched before the stream is waited for.
        unsafe { result::memcpy_htod_async(to.address(), &from.as_slice()[..len], self.raw()) }
            .map_err(|error| self.device.failed("a copy to the device", error))
    }

    /// Copies `len` elements of the device, from element `first` on, to the host, from element `at` on.
    pub(super) fn download<T: Element>(
        &self,
        from: &Buffer,
        first: usize,
        to: &mut Pinned<T>,
        at: usize,
        len: usize,
    ) -> Result<(), CudaError> {
        let end = (first + len) * size_of::<T>();
        assert!(end <= from.bytes(), "a copy beyond a buffer of {} bytes", from.bytes());
        let address = from.address() + (first * size_of::<T>()) as u64;
        // SAFETY: in bounds on both sides; the host memory is not read before the stream is waited for.
        unsafe { result::memcpy_dtoh_async(&mut to.as_mut_slice()[at..at + len], address, self.raw()) }
            .map_err(|error| self.device.failed("a copy from the device", error))
    }

    /// Waits until all work is done.
    pub(super) fn wait(&self) -> Result<(), CudaError> {
        self.stream
            .synchronize()
            .map_err(|error| self.device.failed("the device failed in a step", error))
    }

    /// Records what `work` puts on the stream, which does not run.
    pub(super) fn record(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<Graph, CudaError> {
        let failed = |error| self.device.failed("a graph cannot be recorded", error);
        // Of this thread alone: the other models of the device go on. Memory must not come or go meanwhile, because that waits for the
        // whole device, which a capture cannot be part of.
        let _alone = self.device.exclusive();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).map_err(failed)?;
        let done = work();
        let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        done?;
        match graph.map_err(failed)? {
            Some(graph) => Ok(Graph(graph)),
            None => Err(failed(result::DriverError(
                sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            ))),
        }
    }

    /// Starts a graph that was recorded from this stream.
    pub(super) fn replay(&self, graph: &Graph) -> Result<(), CudaError> {
        graph
            .0
            .launch()
            .map_err(|error| self.device.failed("a graph cannot be started", error))
    }
}
