//! The file that a command is told to write: checked before the work, so that nothing is overwritten that is an input.

use std::fs;
use std::path::{Path, PathBuf};

use crate::output::BadInput;

/// What there is at a path that is to be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Nothing, or a file without content.
    Nothing,
    /// A regular file, at the end of all links.
    File(PathBuf),
}

/// Whether `out` can be written without a loss of `inputs`: each a file, or a folder that stands for all files below it.
/// Links make no difference, symbolic or hard. Costs a look at every file of those folders, where `out` exists.
pub(crate) fn inspect(out: &Path, inputs: &[&Path]) -> Result<Existing, BadInput> {
    let bad = |reason: &str| Err(BadInput(format!("--out {}: {reason}", out.display())));
    if let Some(folder) = out.parent()
        && !folder.as_os_str().is_empty()
        && !folder.is_dir()
    {
        return bad("its folder does not exist; make it first");
    }
    let Ok(own) = fs::symlink_metadata(out) else { return Ok(Existing::Nothing) };
    let Ok(target) = fs::canonicalize(out) else {
        return bad("it is a link to nothing; remove it first");
    };
    if target.is_dir() {
        return bad("it is a folder; name a file in it");
    }
    if !target.is_file() {
        return bad("it is no regular file; leave --out out to write to stdout");
    }
    if let Some(input) = inputs.iter().find(|input| holds(input, &target)) {
        let what = if input.is_dir() { "a file of" } else { "the same file as" };
        return bad(&format!("it is {what} {}, which is read; name another file", input.display()));
    }
    let is_empty = own.is_file() && own.len() == 0;
    Ok(if is_empty { Existing::Nothing } else { Existing::File(target) })
}

/// Whether a path is this file, or a folder with it somewhere below.
fn holds(path: &Path, file: &Path) -> bool {
    if !path.is_dir() {
        return same(path, file);
    }
    if fs::canonicalize(path).is_ok_and(|path| file.starts_with(path)) {
        return true;
    }
    // A hard link has another path.
    let Ok(entries) = fs::read_dir(path) else { return false };
    entries.flatten().any(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder { holds(&entry.path(), file) } else { same(&entry.path(), file) }
    })
}

/// Whether two paths lead to the same file.
fn same(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if let (Ok(a), Ok(b)) = (fs::metadata(a), fs::metadata(b)) {
            return (a.dev(), a.ino()) == (b.dev(), b.ino());
        }
    }
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn an_input_is_found_behind_every_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("run/clients")).unwrap();
        for name in ["x.csv", "run/clients/0.safetensors", "other.csv"] {
            fs::write(at(name), "content").unwrap();
        }
        fs::write(at("empty.csv"), "").unwrap();
        std::os::unix::fs::symlink(at("x.csv"), at("soft.csv")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling.csv")).unwrap();
        std::os::unix::fs::symlink(at("run"), at("way")).unwrap();
        fs::hard_link(at("x.csv"), at("hard.csv")).unwrap();
        fs::hard_link(at("run/clients/0.safetensors"), at("hard.safetensors")).unwrap();
        let (input, run) = (at("x.csv"), at("run"));
        let found = |name: &str| inspect(&at(name), &[&input, &run]);
        for name in ["x.csv", "soft.csv", "hard.csv", "run/../x.csv"] {
            let error = found(name).unwrap_err().to_string();
            assert!(error.contains("the same file as") && error.contains("x.csv, which is read"), "{error}");
        }
        for name in ["run/clients/0.safetensors", "way/clients/0.safetensors", "hard.safetensors"] {
            let error = found(name).unwrap_err().to_string();
            assert!(error.contains("a file of"), "{error}");
        }
        assert!(found("dangling.csv").unwrap_err().to_string().contains("a link to nothing"));
        assert!(found("run").unwrap_err().to_string().contains("it is a folder"));
        assert!(inspect(Path::new("/dev/null"), &[]).unwrap_err().to_string().contains("no regular file"));
        for name in ["new.csv", "run/new.csv", "empty.csv"] {
            assert_eq!(found(name).unwrap(), Existing::Nothing, "{name}");
        }
        assert_eq!(found("other.csv").unwrap(), Existing::File(at("other.csv").canonicalize().unwrap()));
    }
}
