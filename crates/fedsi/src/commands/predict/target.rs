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
    let inputs = inputs.into_iter().chain([arguments.fit_targets.as_ref(), arguments.model.as_ref()]);
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

/// The path to keep a new client's model at; none where it is not kept. A folder gets a file named after the data.
pub(super) fn keep(arguments: &PredictArguments) -> Result<Option<PathBuf>, BadInput> {
    let (Some(keep), Some(fit)) = (&arguments.keep, &arguments.fit) else { return Ok(None) };
    let bad = |words: &str| Err(BadInput(format!("--keep {}: {words}", keep.display())));
    let path = match keep.is_dir() {
        true => keep.join(fit.file_stem().unwrap_or(fit.as_os_str())).with_extension("safetensors"),
        false => keep.clone(),
    };
    if path.extension().is_none_or(|ending| ending != "safetensors") {
        return bad("expected a name that ends in .safetensors, or a folder");
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(folder) = parent.canonicalize() else { return bad("its folder does not exist; make it first") };
    if arguments.run.canonicalize().is_ok_and(|run| folder.starts_with(run)) {
        return bad("it would be in the run's folder, which holds the run's own files; name another folder");
    }
    let is_input = |input: &Path| same_file(input, &path);
    if [Some(&arguments.input), Some(fit), arguments.fit_targets.as_ref()]
        .into_iter()
        .flatten()
        .any(|input| is_input(input))
    {
        return bad("it is an input; name another file");
    }
    match std::fs::symlink_metadata(&path) {
        Err(_) => Ok(Some(path)),
        Ok(found) if found.is_file() && (found.len() == 0 || arguments.force || is_kept(&path)) => {
            Ok(Some(path))
        }
        Ok(_) => bad(
            "it is there already, and --keep did not write it; name another file, or --force to replace it",
        ),
    }
}

/// Whether two paths lead to the same file.
fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Whether `--keep` wrote this file.
fn is_kept(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| fedsi_run::saved::is_kept_model(&bytes))
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
    let classes = ["class", "probability", "entropy", "abstain"].into_iter().all(has)
        || ["row", "class", "probability", "entropy"].into_iter().all(has);
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
        assert!(is_own_csv("age,ward,class,probability,well,sick,entropy,strangeness,abstain,reason"));
        assert!(is_own_csv("row,mean_a,deviation_a,variance_a,low_a,high_a,mean_b,deviation_b,low_b,high_b"));
        for other in ["", "age,dose,outcome", "class,probability", "{", "row,mean,deviation"] {
            assert!(!is_own_csv(other), "{other}");
        }
        assert!(!is_own_json("{\n  \"client\": 1\n}"));
    }
}
