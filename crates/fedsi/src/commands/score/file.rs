//! Where figures are written: to a file that nobody else wrote.

use std::path::{Path, PathBuf};

use fedsi_run::write_whole;

use super::report::{FORMAT, Report};
use crate::args::ScoreArguments;
use crate::output::BadInput;
use crate::output_file::{Existing, inspect};

/// Looks before the work whether the file can be written.
pub(super) fn check(arguments: &ScoreArguments) -> Result<(), BadInput> {
    let Some(out) = &arguments.out else { return Ok(()) };
    let inputs =
        [Some(&arguments.run), Some(&arguments.input), arguments.targets.as_ref(), arguments.model.as_ref()];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().map(PathBuf::as_path).collect();
    let existing = inspect(out, &inputs)?;
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let bad = |words: &str| Err(BadInput(format!("--out {}: {words}", out.display())));
    if let (Ok(parent), Ok(run)) = (parent.canonicalize(), arguments.run.canonicalize())
        && parent.starts_with(run)
    {
        return bad("it would be in the run's folder, which holds the run's own files; name another folder");
    }
    match existing {
        Existing::Nothing => Ok(()),
        Existing::File(file) if arguments.force || is_own(&file) => Ok(()),
        Existing::File(_) => bad(
            "it is there already, and fedsi score did not write it; name another file, or --force to replace it",
        ),
    }
}

/// Writes them, and says where.
pub(super) fn write(arguments: &ScoreArguments, report: &Report) -> anyhow::Result<Option<PathBuf>> {
    let Some(out) = &arguments.out else { return Ok(None) };
    check(arguments)?;
    let text = format!("{}\n", serde_json::to_string_pretty(report)?);
    write_whole(out, text.as_bytes())?;
    Ok(Some(out.clone()))
}

fn is_own(path: &Path) -> bool {
    let text = std::fs::read(path).unwrap_or_default();
    let found: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    found.is_some_and(|found| found["format"] == FORMAT)
}
