//! Comparisons: `fedsi.compare`.

mod section;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use fedsi_compare::{
    CompareError, CompareObserver, CompareSpec, Comparison, ExternalMethod, FinishedComparison, Format,
    TuneSpec,
};
use fedsi_fl::config::Overrides;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use section::Section;
use toml::{Table, Value};

use crate::config::{layers, refused};
use crate::errors::Kind;
use crate::run::{checked_with, pending_signal, report_failure, run_failure};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(compare_methods, module)?)?;
    module.add_function(wrap_pyfunction!(render_comparison, module)?)
}

/// Seeds where nobody says how many.
const SEEDS: usize = 5;

/// How often signals are looked for while runs are at work.
const POLL: Duration = Duration::from_millis(50);

/// The keys of a config that hold paths.
const PATHS: [&str; 5] =
    ["data.dir", "data.files.train", "data.files.test", "partition.path", "checkpoint.state_dir"];

/// Runs the methods over the seeds, or what of that is missing in the folder, and sums up. Returns the folder.
/// `observer` is called with `("stage" | "advanced" | "started" | "finished", name, number, number)`.
#[pyfunction]
#[pyo3(signature = (config, settings, *, methods, seeds, reference, with_, columns, tune, tune_rounds,
    tune_finalists, tune_seeds, jobs, out, overwrite, observer))]
#[allow(clippy::too_many_arguments)] // the flags of `fedsi compare`, by their names
fn compare_methods(
    py: Python<'_>,
    config: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
    methods: Option<String>,
    seeds: Option<usize>,
    reference: Option<String>,
    with_: Option<Vec<String>>,
    columns: Option<Vec<String>>,
    tune: Option<bool>,
    tune_rounds: Option<usize>,
    tune_finalists: Option<usize>,
    tune_seeds: Option<usize>,
    jobs: usize,
    out: Option<PathBuf>,
    overwrite: bool,
    observer: Option<Py<PyAny>>,
) -> PyResult<PathBuf> {
    let mut layers = layers(config, settings)?;
    let section = Section::take(&mut layers).map_err(refused)?;
    let given = Overrides::merged(&layers);
    if given.contains_key("method") {
        let words = "method: fedsi.compare runs several methods; name them in methods=[...]";
        return Err(Kind::Config.error(words));
    }
    let tune = tune.or(section.tune).unwrap_or(false);
    let trials = TuneSpec {
        rounds: tune_rounds.or(section.tune_rounds),
        finalists: tune_finalists.or(section.tune_finalists),
        seeds: tune_seeds.or(section.tune_seeds),
    };
    let reference = reference.or_else(|| section.reference.clone());
    for (name, number) in [("tune_rounds", trials.rounds), ("tune_seeds", trials.seeds)] {
        if number == Some(0) || (number.is_some() && !tune) {
            return Err(Kind::Config.error(format!("{name}: expected 1 or more, together with tune=True")));
        }
    }
    if trials.finalists.is_some() && !tune {
        return Err(Kind::Config.error("tune_finalists: expected together with tune=True"));
    }
    let with = with_.unwrap_or_else(|| section.with());
    let with = with.iter().map(|text| ExternalMethod::parse(text)).collect::<Result<_, _>>();
    let spec = CompareSpec {
        methods: fedsi_compare::methods(&methods.unwrap_or_else(|| section.methods()))
            .map_err(compare_failure)?,
        with: with.map_err(compare_failure)?,
        columns: columns.unwrap_or_else(|| section.columns()),
        seeds: seeds.or(section.seeds).unwrap_or(SEEDS),
        reference: reference.as_deref(),
        tune: tune.then_some(trials),
        jobs,
        out,
        force: overwrite,
        settings: &|last| checked_with(&layers, last),
        given: absolute_paths(given),
    };
    let watch = Watch { function: observer, stop: AtomicBool::new(false), raised: Mutex::new(None) };
    let finished = py.detach(|| watched(&spec, &watch));
    watch.raise()?;
    let FinishedComparison { folder, comparison } = finished.map_err(compare_failure)?;
    let path = folder.path().to_owned();
    let report = py.detach(|| {
        let report = fedsi_report::write_comparison(&path, &comparison);
        comparison.write(&path).map(|()| report)
    });
    report.map_err(compare_failure)?.map_err(|error| report_failure(&error))?;
    Ok(path)
}

/// A comparison's table as `markdown`, `latex`, `csv` or `plain` text.
#[pyfunction]
fn render_comparison(folder: PathBuf, format: &str) -> PyResult<String> {
    let format = match format {
        "plain" => Format::Plain,
        "markdown" => Format::Markdown,
        "latex" => Format::Latex,
        "csv" => Format::Csv,
        other => {
            let expected = "plain, markdown, latex or csv";
            return Err(Kind::Input.error(format!("format: found {other:?}, expected {expected}")));
        }
    };
    Ok(Comparison::read(&folder).map_err(compare_failure)?.render(format))
}

/// Runs at work on threads of their own, while this one, which may be the interpreter's main thread, looks for signals.
fn watched(spec: &CompareSpec<'_>, watch: &Watch) -> Result<FinishedComparison, CompareError> {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel::<()>();
        let work = scope.spawn(move || {
            // Dropped when the work ends, however it does: that wakes the other thread.
            let _sender = sender;
            fedsi_compare::compare(spec, watch, &|folder, summary| {
                Ok(fedsi_report::write_run(folder, summary).map(drop)?)
            })
        });
        while receiver.recv_timeout(POLL) == Err(mpsc::RecvTimeoutError::Timeout) {
            watch.note(pending_signal());
        }
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Calls a Python function, and keeps what it raises; that stops the comparison.
struct Watch {
    function: Option<Py<PyAny>>,
    stop: AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl Watch {
    fn note(&self, outcome: PyResult<()>) {
        if let Err(error) = outcome {
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.stop.store(true, Ordering::SeqCst);
        }
    }

    fn raise(&self) -> PyResult<()> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn call(&self, what: &str, name: &str, first: u64, second: u64) {
        if let Some(function) = &self.function
            && !self.wants_to_stop()
        {
            self.note(Python::attach(|py| function.call1(py, (what, name, first, second)).map(drop)));
        }
    }
}

impl CompareObserver for Watch {
    fn stage(&self, what: &str, jobs: usize, reused: usize, units: u64) {
        self.call("stage", what, units, (jobs + reused) as u64);
    }

    fn started(&self, name: &str) {
        self.call("started", name, 0, 0);
    }

    fn advanced(&self, units: u64) {
        self.call("advanced", "", units, 0);
    }

    fn wants_to_stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn finished(&self, name: &str, outcome: Result<(), &str>) {
        if let Err(reason) = outcome {
            tracing::warn!("{name} failed: {reason}");
        }
        self.call("finished", name, u64::from(outcome.is_ok()), 0);
    }
}

/// Why there is no comparison.
fn compare_failure(error: CompareError) -> PyErr {
    let (kind, advice) = match error {
        CompareError::Run(error) => return run_failure(error),
        CompareError::Duplicate { .. } => (Kind::Config, "; name each method once in methods"),
        CompareError::NoMethods => (Kind::Config, "; name methods, as in methods=[\"fedsi\", \"fedavg\"]"),
        CompareError::NoSeeds => (Kind::Config, "; ask for at least 1 in seeds, better 5"),
        CompareError::Reference { .. }
        | CompareError::Column { .. }
        | CompareError::SeedRange { .. }
        | CompareError::TooManySeeds { .. } => (Kind::Config, ""),
        CompareError::With { .. } | CompareError::External(_) | CompareError::OtherData { .. } => {
            (Kind::Data, "")
        }
        CompareError::Foreign { .. } | CompareError::InUse { .. } => {
            (Kind::Folder, "; give another folder as out")
        }
        CompareError::Differs { .. } | CompareError::UnfinishedDiffers { .. } => {
            (Kind::Folder, "; give another folder as out, or overwrite=True to replace runs that differ")
        }
        _ => (Kind::Folder, ""),
    };
    kind.error(format!("{error}{advice}"))
}

/// What was given, with paths that mean the same from any folder.
fn absolute_paths(mut given: Table) -> Table {
    for key in PATHS {
        make_absolute(&mut given, key);
    }
    given
}

fn make_absolute(table: &mut Table, key: &str) {
    let (section, rest) = key.split_once('.').map_or((key, None), |(section, rest)| (section, Some(rest)));
    match (table.get_mut(section), rest) {
        (Some(Value::Table(inner)), Some(rest)) => make_absolute(inner, rest),
        (Some(Value::String(path)), None) if !path.is_empty() => {
            if let Ok(absolute) = std::path::absolute(Path::new(path.as_str())) {
                *path = absolute.display().to_string();
            }
        }
        _ => {}
    }
}
