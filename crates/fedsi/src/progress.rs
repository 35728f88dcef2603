//! A progress bar and a log that share the terminal.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fedsi_compare::CompareObserver;
use fedsi_fl::Simulation;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_run::Observer;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

use crate::data_summary;

/// The terminal behind stderr: bars only where there is one, log lines above them.
#[derive(Clone)]
pub(crate) struct Screen {
    bars: MultiProgress,
    pub(crate) quiet: bool,
}

impl Screen {
    pub(crate) fn new(quiet: bool) -> Self {
        let visible = !quiet && io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self { bars: MultiProgress::with_draw_target(target), quiet }
    }

    /// A bar of `length` steps; `template` as indicatif writes it.
    pub(crate) fn bar(&self, length: u64, template: &str) -> ProgressBar {
        let bar = self.bars.add(ProgressBar::new(length));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar
    }
}

/// Log lines: warnings always, more with -v. --quiet is for progress and tables: a warning says that results are not what
/// they seem, and a script needs that as much as a person does.
pub(crate) fn log_to(screen: &Screen, verbose: u8) {
    let level = match (screen.quiet, verbose) {
        (true, _) | (false, 0) => tracing::Level::WARN,
        (false, _) => tracing::Level::INFO,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .without_time()
        .with_ansi(io::stderr().is_terminal())
        .with_writer(screen.clone())
        .init();
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = Lines<'a>;
    fn make_writer(&'a self) -> Lines<'a> {
        Lines(&self.bars)
    }
}

/// Writes to stderr with the bars out of the way.
pub(crate) struct Lines<'a>(&'a MultiProgress);

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The bar of a run: rounds with loss, rate and time left; then clients evaluated.
pub(crate) struct RunBar<'a> {
    screen: &'a Screen,
    bar: ProgressBar,
}

impl<'a> RunBar<'a> {
    pub(crate) fn new(screen: &'a Screen) -> Self {
        let bar = screen.bar(0, "{spinner} reading the data");
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { screen, bar }
    }

    fn replace(&mut self, length: u64, template: &str) {
        self.bar.finish_and_clear();
        self.bar = self.screen.bar(length, template);
    }
}

impl Observer for RunBar<'_> {
    fn started(&mut self, simulation: &Simulation, rounds: usize) {
        let (clients, parameters) =
            (simulation.federation().clients(), simulation.client().network().layout().len());
        tracing::info!(clients, parameters, "training");
        // A resumed run has shown it already.
        let summary = simulation.federation().data_summary().filter(|_| simulation.server().round() == 0);
        if let Some(summary) = summary
            && !self.screen.quiet
        {
            let _ = self.screen.make_writer().write_all(data_summary::text(&summary).as_bytes());
        }
        self.replace(rounds as u64, "training {wide_bar} {pos}/{len}  {msg}, {eta} left");
        // A resumed run has finished some rounds already.
        self.bar.set_position(simulation.server().round());
        self.bar.reset_eta();
    }

    fn round(&mut self, record: &RoundRecord) {
        let loss = record.train_loss.map(|loss| format!("loss {loss:.4}, ")).unwrap_or_default();
        let accuracy = record.validation.and_then(|validation| validation.accuracy);
        let held_out = accuracy.map(|value| format!("held-out {:.1}%, ", 100.0 * value)).unwrap_or_default();
        self.bar.set_message(format!("{loss}{held_out}{:.1} rounds/s", self.bar.per_sec()));
        self.bar.inc(1);
    }

    fn evaluated(&mut self, clients: usize, total: usize) {
        if clients == 1 {
            self.replace(total as u64, "evaluating {wide_bar} client {pos}/{len}  {eta} left");
        }
        self.bar.set_position(clients as u64);
        if clients == total {
            self.bar.finish_and_clear();
        }
    }

    fn wants_to_stop(&self) -> bool {
        crate::stop::wanted()
    }
}

/// The bar of a comparison: all rounds of all runs, who is at work, and the time left.
pub(crate) struct CompareBar<'a> {
    screen: &'a Screen,
    state: Mutex<CompareState>,
}

struct CompareState {
    bar: ProgressBar,
    what: String,
    at_work: Vec<String>,
    done: usize,
    all: usize,
}

impl<'a> CompareBar<'a> {
    pub(crate) fn new(screen: &'a Screen) -> Self {
        let bar = screen.bar(0, "{spinner} reading the data");
        bar.enable_steady_tick(Duration::from_millis(100));
        let state = CompareState { bar, what: String::new(), at_work: Vec::new(), done: 0, all: 0 };
        Self { screen, state: Mutex::new(state) }
    }

    /// Changes what is known and shows it.
    fn update(&self, change: impl FnOnce(&mut CompareState)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let CompareState { bar, what, at_work, done, all } = &*state;
        bar.set_message(format!("{what} {done}/{all}: {}", at_work.join(", ")));
    }

    pub(crate) fn clear(&self) {
        self.update(|state| state.bar.finish_and_clear());
    }
}

impl CompareObserver for CompareBar<'_> {
    fn stage(&self, what: &str, jobs: usize, reused: usize, units: u64) {
        self.update(|state| {
            state.bar.finish_and_clear();
            state.bar = self.screen.bar(units, "{msg} {wide_bar} {percent}%  {eta} left");
            state.bar.enable_steady_tick(Duration::from_millis(500));
            (state.what, state.done, state.all) = (what.to_owned(), reused, jobs + reused);
        });
    }

    fn started(&self, name: &str) {
        self.update(|state| state.at_work.push(name.to_owned()));
    }

    fn wants_to_stop(&self) -> bool {
        crate::stop::wanted()
    }

    fn advanced(&self, units: u64) {
        self.update(|state| state.bar.inc(units));
    }

    fn finished(&self, name: &str, outcome: Result<(), &str>) {
        let (mut done, mut all) = (0, 0);
        self.update(|state| {
            state.at_work.retain(|other| other != name);
            state.done += 1;
            (done, all) = (state.done, state.all);
        });
        match outcome {
            Ok(()) => tracing::info!("{name} is done ({done} of {all})"),
            Err(reason) => tracing::warn!("{name} failed ({done} of {all}): {reason}"),
        }
    }
}
