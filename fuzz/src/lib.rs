//! A file of its own for each fuzzing process: readers take paths.

use std::path::PathBuf;

/// Writes the bytes to a file of this name, in memory where the system has such a place, and answers with its path.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = parent.join(format!("fedsi-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for fuzzing");
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder for fuzzing");
    std::fs::write(&path, bytes).expect("a file for fuzzing");
    path
}
