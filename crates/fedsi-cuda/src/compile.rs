//! Kernels from source to machine code, kept on disk from run to run.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

use cudarc::nvrtc::{result, sys};
use sha2::{Digest as _, Sha256};

use crate::CudaError;

/// The compiler's option. Not `--use_fast_math`: products are f32, and so are their roots and exponentials.
const OPTIONS: &str = "--std=c++17";

/// Bytes of a checksum.
const CHECKSUM: usize = 32;

/// Compiles kernels for one kind of GPU.
#[derive(Debug)]
pub(crate) struct Compiler {
    /// `sm_90a`.
    target: String,
    /// The compiler's version, which decides machine code as much as the source does.
    version: String,
    /// Where machine code is kept; none where there is no such folder.
    folder: Option<PathBuf>,
}

impl Compiler {
    /// For GPUs of this compute capability, 90 for 9.0. The compiler's library must be there.
    pub(crate) fn new(architecture: u32) -> Result<Self, CudaError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are valid places for an int, which is all that the call writes.
        let status = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
        check(status, "nvrtcVersion")?;
        // Clusters and bulk copies need what only this very architecture has.
        let suffix = if architecture >= 90 { "a" } else { "" };
        let folder = cache_folder();
        Ok(Self { target: format!("sm_{architecture}{suffix}"), version: format!("{major}.{minor}"), folder })
    }

    /// Its version.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The machine code of a translation unit: what is on disk, or compiled now (some seconds).
    pub(crate) fn machine_code(&self, source: &str) -> Result<Vec<u8>, CudaError> {
        let path = self.folder.as_ref().map(|folder| folder.join(self.file_name(source)));
        if let Some(found) = path.as_deref().and_then(read_checked) {
            return Ok(found);
        }
        let code = self.compile(source)?;
        if let Some(path) = path
            && let Err(error) = write_checked(&path, &code)
        {
            // Only the time of the next run is at stake.
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                tracing::warn!(
                    "compiled kernels cannot be kept in {}, and will be compiled again: {error}",
                    path.display()
                )
            });
        }
        Ok(code)
    }

    fn file_name(&self, source: &str) -> String {
        let mut digest = Sha256::new();
        for part in [&self.target, &self.version, OPTIONS, source] {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        let digest: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("{digest}.cubin")
    }

    fn compile(&self, source: &str) -> Result<Vec<u8>, CudaError> {
        let text =
            CString::new(source).map_err(|_| CudaError::Compile("its source has a zero byte".into()))?;
        let program = result::create_program(&text, Some(c"fedsi.cu"))
            .map_err(|error| CudaError::Compile(format!("{error:?}")))?;
        let program = Program(program);
        let options = [format!("--gpu-architecture={}", self.target), OPTIONS.to_owned()];
        // SAFETY: the program is alive until the end of this function.
        let compiled = unsafe { result::compile_program(program.0, &options) };
        if let Err(error) = compiled {
            // SAFETY: as above.
            let log = unsafe { result::get_program_log(program.0) }.unwrap_or_default();
            let bytes: Vec<u8> = log.iter().map(|&byte| byte as u8).collect();
            let log = CStr::from_bytes_until_nul(&bytes).map(CStr::to_string_lossy).unwrap_or_default();
            let first: Vec<&str> = log.lines().filter(|line| line.contains("error")).take(3).collect();
            return Err(CudaError::Compile(format!("{error:?}: {}", first.join("; "))));
        }
        let mut size = 0;
        // SAFETY: `size` is a valid place for a size; the program is alive.
        check(unsafe { sys::nvrtcGetCUBINSize(program.0, &raw mut size) }, "nvrtcGetCUBINSize")?;
        let mut code = vec![0_u8; size];
        // SAFETY: the vector has as many bytes as the compiler has just said that it writes.
        check(unsafe { sys::nvrtcGetCUBIN(program.0, code.as_mut_ptr().cast()) }, "nvrtcGetCUBIN")?;
        Ok(code)
    }
}

/// A program of the compiler, destroyed at the end.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: nobody else has this handle, and it is not used again.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn check(status: sys::nvrtcResult, call: &'static str) -> Result<(), CudaError> {
    status.result().map_err(|error| CudaError::Call { call, reason: format!("{error:?}") })
}

/// `$XDG_CACHE_HOME/fedsi/kernels`, or in the home folder's `.cache`.
fn cache_folder() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let home = || {
        std::env::var_os("HOME")
            .filter(|folder| !folder.is_empty())
            .map(|home| PathBuf::from(home).join(".cache"))
    };
    Some(cache.or_else(home)?.join("fedsi").join("kernels"))
}

/// A file's content, where its checksum fits: the driver is never handed damaged machine code.
fn read_checked(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = fs::read(path).ok()?;
    let code = bytes.split_off(bytes.len().min(CHECKSUM));
    (!code.is_empty() && bytes == Sha256::digest(&code)[..]).then_some(code)
}

/// Whole or not at all.
fn write_checked(path: &Path, code: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&Sha256::digest(code))?;
    file.write_all(code)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_machine_code_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("kernel.cubin");
        assert_eq!(read_checked(&path), None, "there is none");
        write_checked(&path, b"machine code").unwrap();
        assert_eq!(read_checked(&path).as_deref(), Some(&b"machine code"[..]));
        let mut bytes = fs::read(&path).unwrap();
        bytes[CHECKSUM + 3] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(read_checked(&path), None, "a flipped bit");
        fs::write(&path, &bytes[..CHECKSUM]).unwrap();
        assert_eq!(read_checked(&path), None, "cut off");
        fs::write(&path, b"short").unwrap();
        assert_eq!(read_checked(&path), None, "shorter than a checksum");
    }

    #[test]
    fn machine_code_is_of_one_source_target_and_compiler() {
        let compiler = |target: &str, version: &str| Compiler {
            target: target.into(),
            version: version.into(),
            folder: None,
        };
        let name = compiler("sm_90a", "13.0").file_name("source");
        assert_eq!(name, compiler("sm_90a", "13.0").file_name("source"));
        for other in [
            compiler("sm_80", "13.0").file_name("source"),
            compiler("sm_90a", "12.8").file_name("source"),
            compiler("sm_90a", "13.0").file_name("other source"),
        ] {
            assert_ne!(name, other);
        }
    }
}
