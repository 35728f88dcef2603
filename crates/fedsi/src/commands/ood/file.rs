//! Where the report is written: beside the run, or to a file that nobody else wrote.

use std::path::{Path, PathBuf};

use fedsi_run::{RunFolder, write_whole};
use serde::Serialize;

use crate::args::OodArguments;
use crate::output::BadInput;
use crate::output_file::{Existing, inspect};

/// What the file says it is.
pub(super) const FORMAT: &str = "fedsi-ood-1";

/// The file's name in a run's folder.
const NAME: &str = "ood.json";

/// Looks before the work whether the file can be written.
pub(super) fn check(arguments: &OodArguments) -> Result<(), BadInput> {
    let Some(out) = &arguments.out else { return Ok(()) };
    match inspect(out, &[&arguments.run])? {
        Existing::Nothing => Ok(()),
        Existing::File(file) if arguments.force || is_own(&file) => Ok(()),
        Existing::File(_) => Err(foreign(out)),
    }
}

fn foreign(path: &Path) -> BadInput {
    BadInput(format!(
        "--out {}: it is there already, and fedsi ood did not write it; name another file, or --force to replace it",
        path.display()
    ))
}

/// Writes the report, and says where. In a run's folder, only while no other process works there.
pub(super) fn write(arguments: &OodArguments, report: &impl Serialize) -> anyhow::Result<PathBuf> {
    let text = format!("{}\n", serde_json::to_string_pretty(report)?);
    if let Some(out) = &arguments.out {
        check(arguments)?;
        write_whole(out, text.as_bytes())?;
        return Ok(out.clone());
    }
    let folder = RunFolder::reopen(&arguments.run)?;
    let path = folder.path().join(NAME);
    if path.exists() && !is_own(&path) && !arguments.force {
        return Err(foreign(&path).into());
    }
    write_whole(&path, text.as_bytes())?;
    Ok(path)
}

fn is_own(path: &Path) -> bool {
    let text = std::fs::read(path).unwrap_or_default();
    let found: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    found.is_some_and(|found| found["format"] == FORMAT)
}
