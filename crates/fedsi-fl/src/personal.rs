//! What clients keep between rounds: in memory, or on disk where clients are many.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::RunError;
use crate::checkpoint::{decode_state, encode_state};
use crate::state::State;

/// Clients in one folder of the store on disk.
const IN_A_FOLDER: usize = 1000;

/// The personal part of every client that has one: nothing else of a client is remembered. Memory follows the
/// clients that have taken part; on disk it is a few bytes for each of them.
#[derive(Debug, Default)]
pub struct PersonalStore {
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory(BTreeMap<usize, State>),
    Disk(OnDisk),
}

impl Default for Place {
    fn default() -> Self {
        Self::Memory(BTreeMap::new())
    }
}

/// What a snapshot says of personal parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Personal {
    /// They themselves.
    Here(BTreeMap<usize, State>),
    /// The round in which each client's file was written.
    OnDisk(BTreeMap<usize, u64>),
}

impl Personal {
    /// How many clients have kept something.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Here(parts) => parts.len(),
            Self::OnDisk(rounds) => rounds.len(),
        }
    }

    /// Whether no client has kept anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl PersonalStore {
    /// A store in this folder, which is made when first needed.
    #[must_use]
    pub fn on_disk(folder: &Path) -> Self {
        let disk = OnDisk { folder: folder.to_owned(), ..OnDisk::default() };
        Self { place: Place::Disk(disk) }
    }

    /// What the client kept, if it has taken part.
    ///
    /// # Errors
    /// A file that is gone or damaged.
    pub fn get(&self, client: usize) -> Result<Option<Cow<'_, State>>, RunError> {
        match &self.place {
            Place::Memory(parts) => Ok(parts.get(&client).map(Cow::Borrowed)),
            Place::Disk(disk) => disk.get(client).map(|found| found.map(Cow::Owned)),
        }
    }

    /// Replaces what the client kept, in this round.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn put(&mut self, client: usize, part: State, round: u64) -> Result<(), RunError> {
        match &mut self.place {
            Place::Memory(parts) => {
                parts.insert(client, part);
                Ok(())
            }
            Place::Disk(disk) => disk.put(client, &part, round),
        }
    }

    /// Clients that have kept something.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.place {
            Place::Memory(parts) => parts.len(),
            Place::Disk(disk) => disk.rounds.len(),
        }
    }

    /// Whether no client has kept anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a checkpoint needs to say. Files that it names are on the disk for good.
    ///
    /// # Errors
    /// A file that cannot be synced.
    pub(crate) fn snapshot(&mut self) -> Result<Personal, RunError> {
        match &mut self.place {
            Place::Memory(parts) => Ok(Personal::Here(parts.clone())),
            Place::Disk(disk) => {
                disk.sync()?;
                Ok(Personal::OnDisk(disk.rounds.clone()))
            }
        }
    }

    /// Goes back to a snapshot, of this round.
    ///
    /// # Errors
    /// A snapshot of another kind of store.
    pub(crate) fn restore(&mut self, personal: Personal, round: u64) -> Result<(), String> {
        match (&mut self.place, personal) {
            (Place::Memory(parts), Personal::Here(kept)) => *parts = kept,
            (Place::Disk(disk), Personal::OnDisk(rounds)) => disk.restore(rounds, round),
            (Place::Disk(_), Personal::Here(_)) => {
                return Err("what clients keep is in it, and was not in a --state-dir".to_owned());
            }
            (Place::Memory(_), Personal::OnDisk(_)) => {
                return Err("what clients keep was in a --state-dir, which is not given".to_owned());
            }
        }
        Ok(())
    }

    /// Checkpoints from `oldest` on are what is kept: files that none of them names go.
    pub(crate) fn forget_before(&mut self, oldest: u64) {
        if let Place::Disk(disk) = &mut self.place {
            disk.forget_before(oldest);
        }
    }
}

/// A file for each client and round: one that a checkpoint names is never written over.
#[derive(Debug, Default)]
struct OnDisk {
    folder: PathBuf,
    /// The round of each client's newest file.
    rounds: BTreeMap<usize, u64>,
    /// Written since the last snapshot.
    unsynced: Vec<PathBuf>,
    /// Files that were replaced, and the round that did.
    replaced: Vec<(u64, PathBuf)>,
}

impl OnDisk {
    fn path(&self, client: usize, round: u64) -> PathBuf {
        self.folder.join((client / IN_A_FOLDER).to_string()).join(format!("{client}-{round}.state"))
    }

    fn get(&self, client: usize) -> Result<Option<State>, RunError> {
        let Some(&round) = self.rounds.get(&client) else { return Ok(None) };
        let path = self.path(client, round);
        let lost = |reason: String| RunError::StateLost { client, path: path.clone(), reason };
        let bytes = fs::read(&path).map_err(|error| lost(error.to_string()))?;
        decode_state(&bytes).map(Some).map_err(lost)
    }

    fn put(&mut self, client: usize, part: &State, round: u64) -> Result<(), RunError> {
        let path = self.path(client, round);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(RunError::write(folder))?;
        }
        let bytes =
            encode_state(part).map_err(|error| RunError::write(&path)(std::io::Error::other(error)))?;
        fs::write(&path, bytes).map_err(RunError::write(&path))?;
        self.unsynced.push(path);
        if let Some(before) = self.rounds.insert(client, round).filter(|&before| before != round) {
            self.replaced.push((round, self.path(client, before)));
        }
        Ok(())
    }

    /// Goes back to these files. Those of later rounds are made again; those that were replaced before go once no
    /// checkpoint can need them. Cost: a look at every file.
    fn restore(&mut self, rounds: BTreeMap<usize, u64>, now: u64) {
        self.rounds = rounds;
        self.unsynced.clear();
        self.replaced.clear();
        let folders = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).flatten();
        for entry in files.filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let place = name.strip_suffix(".state").and_then(|name| name.split_once('-'));
            let parsed = place.and_then(|(client, round)| Some((client.parse().ok()?, round.parse().ok()?)));
            let Some((client, round)) = parsed else { continue };
            if round > now {
                let _ = fs::remove_file(entry.path());
            } else if self.rounds.get(&client) != Some(&round) {
                self.replaced.push((now, entry.path()));
            }
        }
    }

    fn sync(&mut self) -> Result<(), RunError> {
        for path in self.unsynced.drain(..) {
            // One that was replaced and removed since is no loss.
            if let Ok(file) = File::open(&path) {
                file.sync_all().map_err(RunError::write(&path))?;
            }
        }
        Ok(())
    }

    fn forget_before(&mut self, oldest: u64) {
        self.replaced.retain(|(round, path)| {
            let needed = *round > oldest;
            if !needed {
                let _ = fs::remove_file(path);
            }
            needed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(value: f32) -> State {
        State { values: vec![value, 2.0], deviation: vec![], samples: vec![3.0; 3] }
    }

    #[test]
    fn on_disk_is_as_in_memory() {
        let scratch = tempfile::tempdir().unwrap();
        let mut stores = [PersonalStore::default(), PersonalStore::on_disk(&scratch.path().join("s"))];
        for store in &mut stores {
            assert!(store.is_empty());
            for (client, round) in [(3, 1), (70_000, 1), (3, 2)] {
                store.put(client, part(round as f32 + client as f32), round).unwrap();
            }
            assert_eq!(store.len(), 2);
            assert_eq!(store.get(3).unwrap().unwrap().into_owned(), part(5.0));
            assert_eq!(store.get(70_000).unwrap().unwrap().into_owned(), part(70_001.0));
            assert_eq!(store.get(4).unwrap(), None);
        }
    }

    /// A snapshot's files stay until no checkpoint that is kept names them.
    #[test]
    fn a_snapshot_can_be_gone_back_to() {
        let scratch = tempfile::tempdir().unwrap();
        let mut store = PersonalStore::on_disk(scratch.path());
        store.put(1, part(1.0), 1).unwrap();
        let first = store.snapshot().unwrap();
        store.put(1, part(2.0), 2).unwrap();
        store.put(1, part(3.0), 3).unwrap();
        store.forget_before(1);
        store.restore(first.clone(), 1).unwrap();
        assert_eq!(store.get(1).unwrap().unwrap().into_owned(), part(1.0));
        store.put(1, part(2.0), 2).unwrap();
        store.snapshot().unwrap();
        store.forget_before(2);
        store.restore(first, 1).unwrap();
        let error = store.get(1).unwrap_err().to_string();
        assert!(error.contains("client 1"), "{error}");
    }

    #[test]
    fn damage_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let mut store = PersonalStore::on_disk(scratch.path());
        store.put(7, part(1.0), 4).unwrap();
        let file = scratch.path().join("0/7-4.state");
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
        let error = store.get(7).unwrap_err().to_string();
        assert!(error.contains("client 7") && error.contains("checksum"), "{error}");
    }
}
