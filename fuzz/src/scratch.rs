//! Files for readers that take paths.

use std::path::{Path, PathBuf};

/// The input could not be written where the reader looks for it: says nothing about the reader.
pub type ScratchError = std::io::Error;

/// This process's folder: in memory where the system has such a place, since files are written thousands of times a second.
pub(crate) fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    parent.join(format!("fedsi-fuzz-{}", std::process::id()))
}

/// Writes the bytes to a file of this name and answers with its path.
pub(crate) fn file(name: &str, bytes: &[u8]) -> Result<PathBuf, ScratchError> {
    let path = folder().join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(&path, bytes)?;
    Ok(path)
}

/// Removes what this process wrote for its readers.
pub fn clean_up() {
    // What is left behind in memory is lost at the next start of the machine.
    let _ = std::fs::remove_dir_all(folder());
}
