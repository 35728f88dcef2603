//! A kernel's source as a library of the host.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::Library;

use super::shared_memory;

/// In front of a kernel's source.
const BEFORE: [&str; 4] = [
    include_str!("cpp/scheduler.h"),
    include_str!("cpp/collectives.h"),
    include_str!("cpp/language.h"),
    include_str!("cpp/device_math.h"),
];
/// Behind it.
const AFTER: &str = include_str!("cpp/launch.h");

/// Why there is no library.
#[derive(Debug)]
pub(crate) enum CompileError {
    /// There is no C++ compiler; the names that were tried.
    NoCompiler(String),
    /// The source is wrong: what the compiler says, in lines of the kernel's source (`kernel.cu`).
    Source(String),
    /// The result could not be loaded, or a file not be written.
    Load(String),
}

impl CompileError {
    pub(super) fn load(error: impl fmt::Display) -> Self {
        Self::Load(error.to_string())
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCompiler(tried) => write!(f, "no C++ compiler (looked for {tried})"),
            Self::Source(text) => write!(f, "the kernel is no C++ that the host's compiler takes:\n{text}"),
            Self::Load(text) => write!(f, "the compiled kernel cannot be loaded: {text}"),
        }
    }
}

/// The host's C++ compiler: `$CXX`, else one of the usual names.
fn compiler() -> Result<String, CompileError> {
    let mut names: Vec<String> = std::env::var("CXX").into_iter().filter(|name| !name.is_empty()).collect();
    names.extend(["c++", "g++", "clang++"].map(String::from));
    let works = |name: &&String| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    names.iter().find(works).cloned().ok_or_else(|| CompileError::NoCompiler(names.join(", ")))
}

/// Where compiled kernels are kept from one test to the next, by a hash of what they were compiled from.
fn cache() -> PathBuf {
    let folder = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    folder.join("fedsi-emulated-kernels")
}

/// Compiles, or finds what was compiled before, and loads. Where `FEDSI_KEEP_KERNELS` names a folder, the translation unit is
/// also written there.
pub(super) fn shared_library(source: &str, entry: &str) -> Result<Library, CompileError> {
    let compiler = compiler()?;
    let source = shared_memory::declared_for_host(source).map_err(CompileError::Source)?;
    let mut unit: String = BEFORE.concat();
    unit.push_str("\n#line 1 \"kernel.cu\"\n");
    unit.push_str(&source);
    unit.push_str("\n#line 1 \"launch.h\"\n");
    unit.push_str(&format!("#define FEDSI_ENTRY {entry}\n"));
    unit.push_str(AFTER);
    if let Ok(folder) = std::env::var("FEDSI_KEEP_KERNELS") {
        std::fs::write(format!("{folder}/{entry}.cpp"), &unit).map_err(CompileError::load)?;
    }
    let mut hash = DefaultHasher::new();
    (&compiler, &FLAGS, &unit).hash(&mut hash);
    let library = cache().join(format!("{entry}-{:016x}.so", hash.finish()));
    if !library.exists() {
        compile(&compiler, &unit, &library)?;
    }
    // SAFETY: the library was compiled from our source; loading it runs no code but the initialisation of its globals.
    #[allow(unsafe_code)]
    unsafe { Library::new(&library) }.map_err(CompileError::load)
}

const FLAGS: [&str; 7] =
    ["-std=c++17", "-O2", "-fPIC", "-shared", "-w", "-fno-strict-aliasing", "-fvisibility=hidden"];

/// Compiles in a temporary folder beside the result, which is then renamed: tests may compile the same kernel at once.
fn compile(compiler: &str, unit: &str, library: &Path) -> Result<(), CompileError> {
    std::fs::create_dir_all(cache()).map_err(CompileError::load)?;
    let folder = tempfile::tempdir_in(cache()).map_err(CompileError::load)?;
    let (file, made) = (folder.path().join("kernel.cpp"), folder.path().join("kernel.so"));
    std::fs::write(&file, unit).map_err(CompileError::load)?;
    let mut command = Command::new(compiler);
    command.args(FLAGS);
    // Fused multiply-adds as instructions, as on the device; without this `fmaf` is a call.
    if cfg!(target_arch = "x86_64") {
        command.arg("-march=native");
    }
    let output = command.arg("-o").arg(&made).arg(&file).output().map_err(CompileError::load)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(CompileError::Source(text.lines().take(60).collect::<Vec<_>>().join("\n")));
    }
    std::fs::rename(&made, library).map_err(CompileError::load)
}
