//! Where predictions are written: not over an input, a run's file, or what another program wrote.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use fedsi_run::write_whole;

use crate::args::PredictArguments;
use crate::output::BadInput;
use crate::output_file::{Existing, inspect};

/// As much of a file as is looked at: a CSV's header, or what stands before the rows of JSON.
const MOST_READ: u64 = 1 << 20;

/// The path to write to, at the end of all links; none for stdout.
pub(super) fn target(arguments: &PredictArguments) -> Result<Option<PathBuf>, BadInput> {
    let Some(out) = &arguments.out else { return Ok(None) };
    let inputs = [Some(&arguments.input), Some(&arguments.run), arguments.fit.as_ref()];
    let inputs = inputs.into_iter().chain([arguments.fit_targets.as_ref()]);
    let inputs: Vec<&Path> = inputs.flatten().map(PathBuf::as_path).collect();
    let existing = inspect(out, &inputs)?;
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let (Ok(parent), Ok(run)) = (parent.canonicalize(), arguments.run.canonicalize())
        && parent.starts_with(run)
    {
        let words = "it would be in the run's folder, which holds the run's own files; name another folder";
        return Err(BadInput(format!("--out {}: {words}", out.display())));
    }
    match existing {
        Existing::Nothing => Ok(Some(out.clone())),
        Existing::File(file) if arguments.force || is_own(&file).unwrap_or(false) => Ok(Some(file)),
        Existing::File(_) => Err(BadInput(format!(
            "--out {}: it is there already, and fedsi predict did not write it; name another file, or --force to replace it",
            out.display()
        ))),
    }
}

/// Writes predictions, after another look at what is there by now.
pub(super) fn write(arguments: &PredictArguments, text: &str) -> anyhow::Result<bool> {
    let Some(path) = target(arguments)? else { return Ok(false) };
    write_whole(&path, text.as_bytes())?;
    Ok(true)
}

/// Whether `fedsi predict` wrote this file, by its first lines.
fn is_own(path: &Path) -> io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_READ).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(is_own_json(&text) || is_own_csv(text.lines().next().unwrap_or_default()))
}

fn is_own_json(text: &str) -> bool {
    let keys = ["client", "method", "run", "rows"];
    text.starts_with("{\n") && keys.iter().all(|key| text.contains(&format!("\n  \"{key}\": ")))
}

/// The columns that every such file has, for classes or for values.
fn is_own_csv(header: &str) -> bool {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(header.as_bytes());
    let Some(Ok(names)) = reader.records().next() else { return false };
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let has_each =
        |wanted: &str| names.iter().any(|name| name == wanted || name.starts_with(&format!("{wanted}_")));
    let classes = ["class", "probability", "entropy"].into_iter().all(has);
    classes || ["mean", "deviation", "low", "high"].into_iter().all(has_each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_headers_are_known() {
        for own in
            ["row,class,name,probability,entropy,variance,p0,p1", "row,mean,deviation,variance,low,high"]
        {
            assert!(is_own_csv(own), "{own}");
        }
        assert!(is_own_csv("row,mean_a,deviation_a,variance_a,low_a,high_a,mean_b,deviation_b,low_b,high_b"));
        for other in ["", "age,dose,outcome", "class,probability", "{", "row,mean,deviation"] {
            assert!(!is_own_csv(other), "{other}");
        }
        assert!(!is_own_json("{\n  \"client\": 1\n}"));
    }
}
