//! Log events of the crates go to Python's `logging`, as the logger `fedsi`.

use std::fmt::Write as _;

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry;

/// From now on, once in a process.
pub(crate) fn forward_to_python() {
    // Fails where a subscriber is set already, by an earlier import: that one is as good.
    let _ = tracing::subscriber::set_global_default(registry().with(PythonLogging));
}

struct PythonLogging;

impl<S: Subscriber> Layer<S> for PythonLogging {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("fedsi")
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let level = match *event.metadata().level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            _ => 20,
        };
        let sent = Python::attach(|py| {
            let logger = py.import("logging")?.call_method1("getLogger", ("fedsi",))?;
            logger.call_method1("log", (level, "%s", text.line())).map(|_| ())
        });
        // A handler that fails must not end the work that is logged.
        drop(sent);
    }
}

/// An event as one line: its fields, then the message.
#[derive(Default)]
struct Text {
    fields: String,
    message: String,
}

impl Text {
    fn line(&self) -> String {
        format!("{}{}", self.fields, self.message)
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, "{} {value:?}: ", field.name())
        };
    }
}
