//! Interrupts: after the first a run finishes its step and saves, after the second it ends immediately.

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

/// Whether there was an interrupt.
pub(crate) fn wanted() -> bool {
    WANTED.load(Ordering::SeqCst)
}
