//! Which client `--client` means: a name comes before an id, and the choice is told.

use std::io::{self, Write as _};

use fedsi_data::printable;
use fedsi_run::saved::{SavedError, SavedRun};

/// What a client was found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundBy {
    /// Its exact name.
    Name,
    /// Its id.
    Id,
}

impl FoundBy {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Id => "id",
        }
    }
}

/// The client that a text names.
#[derive(Debug)]
pub(crate) struct ChosenClient {
    pub(crate) id: usize,
    pub(crate) name: Option<String>,
    pub(crate) by: FoundBy,
    /// Another client whose id the text is.
    pub(crate) with_that_id: Option<usize>,
    /// Whether any client of the run has a name.
    names_exist: bool,
}

impl ChosenClient {
    /// The client of exactly this name or, where no client has it, of this id.
    pub(crate) fn find(run: &SavedRun, wanted: &str) -> Result<Self, SavedError> {
        let id = run.find(wanted)?;
        let clients = run.clients();
        let name = clients.iter().find(|client| client.id == id).and_then(|client| client.name.clone());
        let by = if name.as_deref() == Some(wanted) { FoundBy::Name } else { FoundBy::Id };
        let other = clients.iter().find(|client| client.id != id && wanted.parse() == Ok(client.id));
        Ok(Self {
            id,
            name,
            by,
            with_that_id: other.map(|other| other.id),
            names_exist: clients.iter().any(|client| client.name.is_some()),
        })
    }

    /// Says on stderr which client was taken, where there are names. A text that also means another client is a warning.
    pub(crate) fn tell(&self, quiet: bool) -> io::Result<()> {
        if !self.names_exist {
            return Ok(());
        }
        let name = self.name.as_ref().map(|name| format!(" `{}`", printable(name))).unwrap_or_default();
        let (id, by) = (self.id, self.by.as_str());
        match self.with_that_id {
            Some(other) => tracing::warn!("client {id}{name} (by name; it is also the id of client {other})"),
            None if quiet => {}
            None => writeln!(io::stderr(), "client {id}{name} (by {by})")?,
        }
        Ok(())
    }
}
