//! The folder of a calibration page: new, empty, or one that holds such a page already.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fedsi_report::CALIBRATION_PLOTS;
use fedsi_run::{Readers, create_folder, write_whole};

use super::Scored;
use crate::output::BadInput;

/// The scores: what tells such a folder from others.
const SCORES: &str = "calibrate.json";

/// A folder that a page may be written into.
#[derive(Debug)]
pub(crate) struct CalibrationFolder(PathBuf);

impl CalibrationFolder {
    /// Whether a page may be written there; `flag` is what named the folder.
    pub(crate) fn inspect(path: &Path, flag: &str) -> Result<Self, BadInput> {
        let bad = |reason: String| Err(BadInput(format!("{flag} {}: {reason}", path.display())));
        if fs::symlink_metadata(path).is_err() {
            return Ok(Self(path.to_owned()));
        }
        if !path.is_dir() {
            return bad("it is not a folder; choose another".to_owned());
        }
        let names = match names(path) {
            Ok(names) => names,
            Err(error) => return bad(format!("cannot be read: {error}")),
        };
        let plots = path.join("plots");
        let plot_names = if plots.is_dir() { self::names(&plots).unwrap_or_default() } else { Vec::new() };
        let is_plot = |name: &String| {
            let stem = [".svg", ".png", ".pdf"].iter().find_map(|end| name.strip_suffix(end));
            stem.is_some_and(|stem| CALIBRATION_PLOTS.contains(&stem))
        };
        let foreign = names.iter().find(|name| ![SCORES, "report.html", "plots"].contains(&name.as_str()));
        let foreign = foreign.or_else(|| plot_names.iter().find(|name| !is_plot(name)));
        let is_ours = names.iter().any(|name| name == SCORES);
        match foreign.or_else(|| names.first().filter(|_| !is_ours)) {
            None => Ok(Self(path.to_owned())),
            Some(name) => bad(format!("it holds `{name}`, which is no such page's; choose another folder")),
        }
    }

    /// Writes the scores, then the plots and the page. Returns the page's path.
    pub(crate) fn write(&self, scored: &Scored<'_>, title: &str) -> anyhow::Result<PathBuf> {
        let path = &self.0;
        let failed = || format!("the page in {} cannot be written", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        create_folder(path, Readers::Umask)?;
        let text = format!("{}\n", serde_json::to_string_pretty(&scored.json())?);
        write_whole(&path.join(SCORES), text.as_bytes())?;
        let calibration = fedsi_report::Calibration {
            title,
            rows: &scored.rows,
            scores: &scored.scores,
            clients: &scored.clients,
            bins: scored.bins,
        };
        fedsi_report::write_calibration(path, &calibration).with_context(failed)
    }
}

/// What a page is headed by: the file's name.
pub(crate) fn title(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    fedsi_data::display_name(&name.to_string_lossy())
}

/// The names in a folder, sorted; hidden files of fedsi's are none.
fn names(path: &Path) -> std::io::Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(path)? {
        all.push(entry?.file_name().to_string_lossy().into_owned());
    }
    all.retain(|name| !name.starts_with(".fedsi-"));
    all.sort_unstable();
    Ok(all)
}
