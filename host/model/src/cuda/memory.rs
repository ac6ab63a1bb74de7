//! Buffers on a device and host memory it can reach without a copy.

use cudarc::driver::{result, sys};
use half::bf16;

use super::stream::Stream;
use super::{CudaError, Device};

/// Numbers that are the same bytes on the host and on a device.
pub(super) trait Element: Copy + Default + 'static {}

impl Element for u8 {}
impl Element for u32 {}
impl Element for u64 {}
impl Element for f32 {}
impl Element for bf16 {}

/// Memory of a device, freed when dropped.
pub(super) struct Buffer {
    address: sys::CUdeviceptr,
    bytes: usize,
    device: Device,
}

impl Buffer {
    /// Memory for `count` elements that the stream finds zeroed. `what` names it in errors.
    pub(super) fn zeroed<T: Element>(stream: &Stream, count: usize, what: &str) -> Result<Self, CudaError> {
        let device = stream.device();
        // The driver has no empty buffers.
        let bytes = (count * size_of::<T>()).max(16);
        device.bind()?;
        let made = {
            let _alone = device.exclusive();
            // SAFETY: the context is bound; the buffer is freed once, when dropped.
            unsafe { result::malloc_sync(bytes) }
        };
        let address = made.map_err(|error| device.failed(format!("no memory for {what} ({bytes} bytes)"), error))?;
        let buffer = Self {
            address,
            bytes,
            device: device.clone(),
        };
        // SAFETY: the range is the buffer's own.
        unsafe { result::memset_d8_async(address, 0, bytes, stream.raw()) }
            .map_err(|error| device.failed(format!("{what} cannot be cleared"), error))?;
        Ok(buffer)
    }

    /// A buffer with these elements.
    pub(super) fn from_slice<T: Element>(stream: &Stream, elements: &[T], what: &str) -> Result<Self, CudaError> {
        let buffer = Self::zeroed::<T>(stream, elements.len(), what)?;
        // SAFETY: the buffer holds at least these elements, and they stay until the stream has been waited for.
        unsafe { result::memcpy_htod_async(buffer.address, elements, stream.raw()) }.map_err(|error| {
            stream
                .device()
                .failed(format!("{what} cannot be copied to the device"), error)
        })?;
        stream.wait()?;
        Ok(buffer)
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            let _alone = self.device.exclusive();
            // SAFETY: allocated by `malloc_sync` in this context and freed only here. Freeing waits for work that uses it. A driver that
            // cannot free has lost its device, and there is nobody to tell.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Host memory that the device copies from and to while the host does other things.
pub(super) struct Pinned<T: Element> {
    address: *mut T,
    len: usize,
    device: Device,
}

// SAFETY: the memory belongs to this value alone and holds plain numbers.
unsafe impl<T: Element + Send> Send for Pinned<T> {}

impl<T: Element> Pinned<T> {
    /// Room for `len` elements, all zero.
    pub(super) fn new(device: &Device, len: usize, what: &str) -> Result<Self, CudaError> {
        device.bind()?;
        let len = len.max(1);
        let made = {
            let _alone = device.exclusive();
            // SAFETY: the context is bound; the memory is freed once, when dropped.
            unsafe { result::malloc_host(len * size_of::<T>(), 0) }
        };
        let address = made
            .map_err(|error| device.failed(format!("no host memory for {what}"), error))?
            .cast::<T>();
        // SAFETY: fresh memory of that length; all-zero bytes are a value of every `Element`.
        unsafe { address.write_bytes(0, len) };
        Ok(Self {
            address,
            len,
            device: device.clone(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn as_slice(&self) -> &[T] {
        // SAFETY: initialised memory of this value. No copy is under way: whoever starts one waits for it before reading.
        unsafe { std::slice::from_raw_parts(self.address, self.len) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.len) }
    }
}

impl<T: Element> Drop for Pinned<T> {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            let _alone = self.device.exclusive();
            // SAFETY: allocated by `malloc_host` and freed only here, as for `Buffer`.
            let _ = unsafe { result::free_host(self.address.cast()) };
        }
    }
}
