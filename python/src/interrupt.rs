//! Work without the interpreter lock that Ctrl-C can end.

use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How often signals are looked for.
const POLL: Duration = Duration::from_millis(50);

/// Runs `work` on a thread of its own, with the interpreter lock released, and looks for signals meanwhile. After Ctrl-C it
/// returns `KeyboardInterrupt` at once; the thread ends when its work does, and the result is dropped.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let receiver = Mutex::new(receiver);
    let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(POLL);
    let thread = std::thread::Builder::new().name("fedsi".to_owned());
    thread.spawn(move || drop(sender.send(work())))?;
    loop {
        match py.detach(next) {
            Ok(result) => return Ok(result),
            Err(mpsc::RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the computation panicked; please report this"));
            }
        }
    }
}
