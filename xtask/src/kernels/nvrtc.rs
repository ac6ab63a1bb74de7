//! NVRTC, NVIDIA's run-time compiler, loaded from a file.
#![allow(unsafe_code, reason = "functions of a C library; nothing else here calls any")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use anyhow::{Context, Result, bail};
use libloading::Library;

type Program = *mut c_void;

/// The library, open.
pub struct Nvrtc {
    library: Library,
    version: String,
}

impl Nvrtc {
    /// Opens the library at a path, or of a name that the system knows.
    pub fn open(path: &Path) -> Result<Self> {
        // SAFETY: the initialisers of NVIDIA's library have no requirements.
        let library = unsafe { Library::new(path) }.with_context(|| format!("cannot open {}", path.display()))?;
        let mut nvrtc = Self {
            library,
            version: String::new(),
        };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the signature is that of nvrtc.h.
        let code = unsafe {
            let version: Function<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int> = nvrtc.get("nvrtcVersion")?;
            version(&raw mut major, &raw mut minor)
        };
        if code != 0 {
            bail!("nvrtcVersion failed with code {code}");
        }
        nvrtc.version = format!("{major}.{minor}");
        Ok(nvrtc)
    }

    /// Its release, as in `12.4`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Compiles a source with one header to PTX.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn compile(&self, name: &str, source: &str, header: (&str, &str), options: &[&str]) -> Result<Vec<u8>> {
        let (source, file) = (CString::new(source)?, CString::new(name)?);
        let (header_name, header) = (CString::new(header.0)?, CString::new(header.1)?);
        let options: Vec<CString> = options
            .iter()
            .map(|option| CString::new(*option))
            .collect::<Result<_, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program: Program = null_mut();
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
        type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
        // SAFETY: signatures are those of nvrtc.h; texts end with a zero and live until the program is destroyed.
        unsafe {
            let create: Function<Create> = self.get("nvrtcCreateProgram")?;
            let compile: Function<Compile> = self.get("nvrtcCompileProgram")?;
            let destroy: Function<Destroy> = self.get("nvrtcDestroyProgram")?;
            let (headers, names) = ([header.as_ptr()], [header_name.as_ptr()]);
            let code = create(
                &raw mut program,
                source.as_ptr(),
                file.as_ptr(),
                1,
                headers.as_ptr(),
                names.as_ptr(),
            );
            if code != 0 {
                bail!("{name}: nvrtcCreateProgram failed with code {code}");
            }
            let code = compile(program, options.len() as c_int, options.as_ptr());
            let result = match code {
                0 => self.text(program, "nvrtcGetPTXSize", "nvrtcGetPTX"),
                _ => {
                    let log = self.text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?;
                    Err(anyhow::anyhow!(
                        "{name} does not compile:\n{}",
                        String::from_utf8_lossy(&log)
                    ))
                }
            };
            destroy(&raw mut program);
            result
        }
    }

    /// A text of a program, without its closing zero.
    ///
    /// # Safety
    /// The program is one of this library's.
    unsafe fn text(&self, program: Program, size: &str, get: &str) -> Result<Vec<u8>> {
        let mut bytes = 0usize;
        // SAFETY: signatures are those of nvrtc.h; the buffer has the size that the library says.
        unsafe {
            let size: Function<unsafe extern "C" fn(Program, *mut usize) -> c_int> = self.get(size)?;
            let get: Function<unsafe extern "C" fn(Program, *mut c_char) -> c_int> = self.get(get)?;
            if size(program, &raw mut bytes) != 0 {
                bail!("NVRTC does not say how long its text is");
            }
            let mut text = vec![0u8; bytes.max(1)];
            if get(program, text.as_mut_ptr().cast()) != 0 {
                bail!("NVRTC does not give its text");
            }
            Ok(CStr::from_bytes_until_nul(&text).map_or(Vec::new(), |text| text.to_bytes().to_vec()))
        }
    }

    /// # Safety
    /// `F` is the signature of the function.
    unsafe fn get<F>(&self, name: &str) -> Result<Function<'_, F>> {
        // SAFETY: the caller's.
        unsafe { self.library.get(name.as_bytes()) }.with_context(|| format!("NVRTC has no function {name}"))
    }
}

type Function<'a, F> = libloading::Symbol<'a, F>;
