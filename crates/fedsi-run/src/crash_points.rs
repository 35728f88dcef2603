//! Where a process may be killed: every change of a file passes a point of its own. Without the feature `crash-points`,
//! which only tests ask for, passing one does nothing.

#[cfg(feature = "crash-points")]
pub use hooked::{Crash, Then, with_hook};

/// Comes before a change of this file or folder.
#[cfg(not(feature = "crash-points"))]
pub(crate) const fn pass(_changed: &std::path::Path) {}

#[cfg(feature = "crash-points")]
pub(crate) use hooked::pass;

#[cfg(feature = "crash-points")]
mod hooked {
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, PoisonError};

    type Hook = Box<dyn FnMut(&Path) -> Then + Send>;

    /// The hooks, each for the changes below a folder.
    static HOOKS: Mutex<Vec<(PathBuf, Hook)>> = Mutex::new(Vec::new());

    /// What comes after a hook.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Then {
        /// The change.
        GoOn,
        /// The end, as a kill would bring it. From then on the hook should answer this every time: a process that is
        /// dead changes nothing more, on none of its threads.
        Crash,
    }

    /// What a crash unwinds with. Nothing in this crate cleans up while it is dropped by one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Crash;

    /// Runs `body` with a hook that is called before every change of a file below `root`, on any thread. What the hook
    /// itself does there passes no points: it may be another process at work.
    pub fn with_hook<R>(
        root: &Path,
        hook: impl FnMut(&Path) -> Then + Send + 'static,
        body: impl FnOnce() -> R,
    ) -> R {
        struct Removed<'a>(&'a Path);
        impl Drop for Removed<'_> {
            fn drop(&mut self) {
                take(self.0);
            }
        }
        lock().push((root.to_owned(), Box::new(hook)));
        let _removed = Removed(root);
        body()
    }

    fn lock() -> std::sync::MutexGuard<'static, Vec<(PathBuf, Hook)>> {
        HOOKS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(changed: &Path) -> Option<(PathBuf, Hook)> {
        let mut hooks = lock();
        let found = hooks.iter().position(|(root, _)| changed.starts_with(root))?;
        Some(hooks.swap_remove(found))
    }

    pub(crate) fn pass(changed: &Path) {
        let Some((root, mut hook)) = take(changed) else { return };
        let then = hook(changed);
        lock().push((root, hook));
        // While a crash unwinds, what is dropped meets points too.
        if then == Then::Crash && !std::thread::panicking() {
            std::panic::resume_unwind(Box::new(Crash));
        }
    }
}
