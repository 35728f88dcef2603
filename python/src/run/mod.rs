//! Runs: `fedsi.run`, `fedsi.resume`, and what can be run.

mod describe;
mod failure;
mod progress;

use std::path::{Path, PathBuf};

use fedsi_fl::config::Overrides;
use fedsi_fl::{Checked, Config, ConfigError, Registry};
use fedsi_run::settings::{DataPaths, first_difference, paths, read_config};
use fedsi_run::{Completed, RunError, RunFolder, run};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use toml::Value;

use crate::config::{layers, refused};
use crate::errors::Kind;
pub(crate) use failure::{folder_failure, report_failure, run_failure};
use progress::PythonObserver;
pub(crate) use progress::pending_signal;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_config, module)?)?;
    module.add_function(wrap_pyfunction!(resume_run, module)?)?;
    describe::register(module)
}

/// These layers, and over them `last`, as a config that means the same from any folder.
pub(crate) fn resolved(layers: &[Overrides], last: &[(&str, Value)]) -> Result<Config, ConfigError> {
    let mut layers = layers.to_vec();
    let last = last.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    layers.push(Overrides::from_assignments("fedsi", last.collect())?);
    let mut config = Registry::builtin().resolve(&layers)?;
    for path in paths(&mut config) {
        if !path.as_os_str().is_empty() {
            *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
        }
    }
    Ok(config)
}

/// The same, checked.
pub(crate) fn checked_with(layers: &[Overrides], last: &[(&str, Value)]) -> Result<Checked, ConfigError> {
    Registry::builtin().check(resolved(layers, last)?)
}

/// Trains, evaluates and writes a run's folder. Returns its path. `out`: none for `runs/NAME` as on the command line.
/// `observer` is called with what happens: see [`PythonObserver`].
#[pyfunction]
#[pyo3(signature = (config, settings, out, resume, overwrite, observer))]
fn run_config(
    py: Python<'_>,
    config: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
    out: Option<PathBuf>,
    resume: bool,
    overwrite: bool,
    observer: Option<Py<PyAny>>,
) -> PyResult<PathBuf> {
    let config = checked_with(&layers(config, settings)?, &[]).map_err(refused)?;
    if let Some(path) = out.as_deref().filter(|path| resume && path.join("config.toml").is_file()) {
        return go_on_with(py, path, &config, observer);
    }
    let folder = match &out {
        Some(path) => RunFolder::claim(path, overwrite, &config),
        None => RunFolder::claim_default(Path::new(""), &config),
    };
    let folder = folder.map_err(folder_failure)?;
    let path = folder.path().to_owned();
    watched(py, observer, &path, |watch| run::run(&config, folder, watch, fedsi_report::write_run))
}

/// Goes on with the run in `out` where it is the one that `config` describes; a complete one is left as it is.
fn go_on_with(
    py: Python<'_>,
    path: &Path,
    config: &Checked,
    observer: Option<Py<PyAny>>,
) -> PyResult<PathBuf> {
    let there = read_config(path).map_err(|error| Kind::Folder.error(error))?;
    let difference = first_difference(&there, config, DataPaths::Compare, &[])
        .map_err(|error| Kind::Config.error(error))?;
    if let Some(difference) = difference {
        return Err(Kind::Folder.error(format!(
            "{} holds a run with other settings: {difference}; give another folder as out, or overwrite=True to \
             replace it",
            path.display()
        )));
    }
    continued(py, path, config, observer)
}

/// Goes on with a run that stopped; a complete one is left as it is. Returns its path.
#[pyfunction]
#[pyo3(signature = (folder, settings, observer))]
fn resume_run(
    py: Python<'_>,
    folder: PathBuf,
    settings: Option<&Bound<'_, PyDict>>,
    observer: Option<Py<PyAny>>,
) -> PyResult<PathBuf> {
    let file = folder.join("config.toml");
    if !file.is_file() {
        let words = "is not a run: it has no config.toml; give the folder that fedsi.run wrote";
        return Err(Kind::Folder.error(format!("{} {words}", folder.display())));
    }
    let mut all = vec![Overrides::from_saved(&file).map_err(|error| Kind::Folder.error(error))?];
    all.extend(layers(None, settings)?);
    let config = checked_with(&all, &[]).map_err(refused)?;
    continued(py, &folder, &config, observer)
}

fn continued(
    py: Python<'_>,
    path: &Path,
    config: &Checked,
    observer: Option<Py<PyAny>>,
) -> PyResult<PathBuf> {
    let folder = RunFolder::reopen(path).map_err(folder_failure)?;
    if path.join("summary.json").exists() {
        run::clean_up_complete(&folder);
        return Ok(path.to_owned());
    }
    watched(py, observer, path, |watch| run::resume(config, &folder, watch, fedsi_report::write_run))
}

type Page = Result<PathBuf, fedsi_report::ReportError>;

/// Does the work on this thread with the interpreter lock released. Whatever Python code raised meanwhile, Ctrl-C among
/// it, is raised once the work has saved what it has.
fn watched(
    py: Python<'_>,
    observer: Option<Py<PyAny>>,
    path: &Path,
    work: impl FnOnce(&mut PythonObserver) -> Result<Completed<Page>, RunError> + Send,
) -> PyResult<PathBuf> {
    let mut watch = PythonObserver::new(observer);
    let done = py.detach(|| work(&mut watch));
    match done {
        Ok(Completed { report, .. }) => {
            // Asked for after the last step: the run is complete, and so is the wish to stop.
            watch.raise()?;
            report.map_err(|error| report_failure(&error))?;
            Ok(path.to_owned())
        }
        Err(error) => {
            if matches!(error, RunError::Interrupted { .. }) {
                watch.raise()?;
            }
            Err(run_failure(error))
        }
    }
}
