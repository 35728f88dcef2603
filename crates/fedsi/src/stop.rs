//! Signals. Interrupts: after the first a run finishes its step and saves, after the second it ends immediately. A file
//! that grows beyond its limit: an error of the write, as on a full disk.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

static WANTED: AtomicBool = AtomicBool::new(false);

/// What a shell reports of a process that an interrupt ended.
const INTERRUPTED: i32 = 130;

/// From now on SIGINT and SIGTERM ask instead of ending. Where the system refuses, they end as ever.
pub(crate) fn listen() {
    let asked = || {
        let mut stderr = std::io::stderr();
        if WANTED.swap(true, Ordering::SeqCst) {
            std::process::exit(INTERRUPTED);
        }
        let _ = writeln!(stderr, "\nstopping after this step; interrupt again to stop immediately");
    };
    if let Err(error) = ctrlc::set_handler(asked) {
        tracing::warn!("interrupts end the process without saving: {error}");
    }
}

/// From now on a write beyond the limit of a file's size (`ulimit -f`) fails and is reported like any other; by default
/// the system ends the process without a word. Called before any thread is started: they inherit it.
#[cfg(unix)]
pub(crate) fn let_large_writes_fail() {
    use nix::sys::signal::{SigSet, Signal};

    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    if let Err(error) = signals.thread_block() {
        tracing::warn!("a file that grows beyond its limit ends the process: {error}");
    }
}

/// Elsewhere there is no such signal.
#[cfg(not(unix))]
pub(crate) const fn let_large_writes_fail() {}

/// Whether there was an interrupt.
pub(crate) fn wanted() -> bool {
    WANTED.load(Ordering::SeqCst)
}
