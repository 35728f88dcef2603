//! CUDA's libraries, found at run time: nothing of CUDA is needed to build, and one binary works with and without it.
//!
//! cudarc looks libraries up by name and panics where one is missing. So each is looked for here first, also in the folders
//! that the system's loader does not know; one that was opened by its path is then found by its name.

use std::path::PathBuf;

use libloading::Library;

use crate::CudaError;

/// Major versions of CUDA whose libraries are tried, the newest first.
const MAJORS: [u32; 2] = [13, 12];

/// A library of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CudaLibrary {
    /// The driver, which comes with the GPU's kernel module.
    Driver,
    /// The compiler of kernels.
    Compiler,
    /// Products of matrices.
    Blas,
    /// Factorisations of matrices.
    Solver,
}

impl CudaLibrary {
    const fn name(self) -> &'static str {
        match self {
            Self::Driver => "libcuda",
            Self::Compiler => "libnvrtc",
            Self::Blas => "libcublas",
            Self::Solver => "libcusolver",
        }
    }

    const fn what_for(self) -> &'static str {
        match self {
            Self::Driver => "the NVIDIA driver",
            Self::Compiler => "CUDA's run-time compiler: part of the CUDA toolkit 12 or 13",
            Self::Blas => "CUDA's linear algebra: part of the CUDA toolkit 12 or 13",
            Self::Solver => "CUDA's factorisations: part of the CUDA toolkit 12 or 13",
        }
    }

    /// Whether cudarc finds it by name.
    fn is_present(self) -> bool {
        // SAFETY: these only try to open shared libraries by their names, and say whether that worked. Opening one runs its
        // initialisers; these are NVIDIA's own libraries.
        unsafe {
            match self {
                Self::Driver => cudarc::driver::sys::is_culib_present(),
                Self::Compiler => cudarc::nvrtc::sys::is_culib_present(),
                Self::Blas => cudarc::cublas::sys::is_culib_present(),
                Self::Solver => cudarc::cusolver::sys::is_culib_present(),
            }
        }
    }

    /// Functions that tell the library from another of its name, or from one that is too old: cudarc panics where one that it
    /// calls is missing.
    const fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Driver => {
                &["cuInit", "cuDriverGetVersion", "cuDeviceGet", "cuGetErrorString", "cuLaunchKernelEx"]
            }
            Self::Compiler => &["nvrtcVersion", "nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBIN"],
            Self::Blas => &["cublasCreate_v2", "cublasDgemm_v2"],
            Self::Solver => &["cusolverDnCreate"],
        }
    }

    /// A function that the library lacks.
    fn missing_function(self) -> Option<&'static str> {
        let has = |name: &&'static str| {
            // SAFETY: the library is present, so that these only return it; that a name is there is asked, nothing is called.
            unsafe {
                let library = match self {
                    Self::Driver => cudarc::driver::sys::culib(),
                    Self::Compiler => cudarc::nvrtc::sys::culib(),
                    Self::Blas => cudarc::cublas::sys::culib(),
                    Self::Solver => cudarc::cusolver::sys::culib(),
                };
                library.get::<unsafe extern "C" fn()>(name.as_bytes()).is_ok()
            }
        };
        self.functions().iter().copied().find(|name| !has(name))
    }

    /// Makes sure that it is there.
    ///
    /// # Errors
    /// It is nowhere, or is not what its name says.
    pub(crate) fn find(self) -> Result<(), CudaError> {
        let mut tried = vec!["the system's libraries (LD_LIBRARY_PATH)".to_owned()];
        if self.is_present() || self.load_by_path(&mut tried) {
            return match self.missing_function() {
                None => Ok(()),
                Some(function) => Err(CudaError::Incomplete { library: self.name(), function }),
            };
        }
        Err(CudaError::Library { library: self.name(), what_for: self.what_for(), tried: tried.join(", ") })
    }

    /// Opens it in a folder that the loader does not know. Whether that worked; adds where it was looked for.
    fn load_by_path(self, tried: &mut Vec<String>) -> bool {
        for folder in folders() {
            let mut found = folder.display().to_string();
            for path in self.files().iter().map(|file| folder.join(file)).filter(|path| path.is_file()) {
                // SAFETY: opening runs the initialisers of NVIDIA's own library; it stays open for the rest of the process, so
                // nothing of it is ever unloaded.
                match unsafe { Library::new(&path) } {
                    Ok(library) => {
                        std::mem::forget(library);
                        if self.is_present() {
                            return true;
                        }
                    }
                    Err(error) => found = format!("{} (which cannot be loaded: {error})", path.display()),
                }
            }
            tried.push(found);
        }
        false
    }

    /// The names of its file.
    fn files(self) -> Vec<String> {
        // The solver's own version is one behind CUDA's since 13.
        let mut names: Vec<String> = match self {
            Self::Driver => vec![format!("{}.so.1", self.name())],
            Self::Compiler | Self::Blas => {
                MAJORS.iter().map(|major| format!("{}.so.{major}", self.name())).collect()
            }
            Self::Solver => [12, 11].iter().map(|major| format!("{}.so.{major}", self.name())).collect(),
        };
        names.push(format!("{}.so", self.name()));
        names
    }
}

/// Folders in which CUDA is usually installed.
fn folders() -> Vec<PathBuf> {
    let named: Vec<PathBuf> =
        ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).map(PathBuf::from).collect();
    let mut roots = named.clone();
    roots.push("/usr/local/cuda".into());
    roots.extend(MAJORS.iter().map(|major| format!("/usr/local/cuda-{major}").into()));
    roots.push("/opt/cuda".into());
    let mut folders: Vec<PathBuf> =
        roots.iter().flat_map(|root| ["lib64", "lib"].map(|below| root.join(below))).collect();
    folders.push("/usr/lib/x86_64-linux-gnu".into());
    folders.push("/usr/lib/wsl/lib".into());
    folders.retain(|folder| folder.is_dir());
    // What the user named is named again where it is not there.
    folders.extend(
        named
            .into_iter()
            .filter(|root| !folders.iter().any(|folder| folder.starts_with(root)))
            .collect::<Vec<_>>(),
    );
    folders
}
