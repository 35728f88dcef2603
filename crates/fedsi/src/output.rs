//! Results go to stdout, everything else to stderr; a failure is one line and an exit code.

use std::io::{self, Write as _};
use std::process::ExitCode;

use fedsi_compare::CompareError;
use fedsi_data::DataError;
use fedsi_fl::ConfigError;
use fedsi_metrics::MetricsError;
use fedsi_paper::PaperError;
use fedsi_run::saved::SavedError;
use fedsi_run::{FolderError, RunError};

use crate::remedy::remedy;

/// A file given on the command line that cannot be used.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// A run that ended early, in this folder.
#[derive(Debug)]
pub(crate) struct Stopped(pub(crate) std::path::PathBuf);

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the run stopped, and what was saved is in {}", self.0.display())
    }
}

impl std::error::Error for Stopped {}

impl Stopped {
    /// What goes on with it, to be copied into a shell.
    fn command(&self) -> String {
        let path = self.0.display().to_string();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=@%,".contains(letter);
        if path.chars().all(is_plain) {
            format!("fedsi resume {path}")
        } else {
            format!("fedsi resume '{}'", path.replace('\'', "'\\''"))
        }
    }
}

/// Prints a result. A reader that has gone away (`| head`) is no failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints a result as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Says what went wrong, and how the process ends: 2 where the input is at fault, 1 otherwise.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    let mut stderr = io::stderr();
    let _ = match error.downcast_ref::<Stopped>() {
        // On a line of its own, so that it can be copied.
        Some(stopped) => {
            writeln!(stderr, "error: {}; resume it with\n  {}", one_line(error), stopped.command())
        }
        None => writeln!(stderr, "error: {}", one_line(error)),
    };
    ExitCode::from(if is_bad_input(error) { 2 } else { 1 })
}

/// An error and its causes on one line, each once (many errors quote their cause themselves), and what to do.
fn one_line(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    if let Some(remedy) = remedy(error) {
        text.push_str("; ");
        text.push_str(&remedy);
    }
    text.replace('\n', " ")
}

fn is_bad_input(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<BadInput>()
            || cause.is::<ConfigError>()
            || cause.downcast_ref::<CompareError>().is_some_and(CompareError::is_bad_input)
            || cause.downcast_ref::<PaperError>().is_some_and(PaperError::is_bad_input)
            || cause.is::<MetricsError>()
            || cause.is::<fedsi_compare::external::ExternalError>()
            || cause
                .downcast_ref::<DataError>()
                .is_some_and(|error| !matches!(error, DataError::Fetch { .. }))
            || cause.downcast_ref::<SavedError>().is_some_and(SavedError::is_bad_input)
            || cause.downcast_ref::<FolderError>().is_some_and(FolderError::is_bad_input)
            || cause.downcast_ref::<RunError>().is_some_and(RunError::is_bad_input)
    })
}
