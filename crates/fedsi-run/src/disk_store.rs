//! What clients keep between rounds, on disk: for federations whose states do not fit in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use fedsi_fl::parameters::{Kept, Parameters};
use fedsi_fl::{ClientStates, ClientStore, StoreError};
use thiserror::Error;

use crate::checkpoint::{decode_state, encode_state};
use crate::files::{
    Readers, WriteError, create_folder, remove_empty_folder, remove_file, remove_temporary_in, sync_folder,
    write_failed, write_unsynced,
};
use crate::origin::OWNER;

/// Clients in one folder of the store.
const CLIENTS_PER_FOLDER: usize = 1000;

/// A file for each client and round: one that a checkpoint refers to is never overwritten. In memory: a few bytes for
/// each client that has taken part.
#[derive(Debug, Default)]
pub struct DiskStore {
    folder: PathBuf,
    /// The round of each client's newest file.
    rounds: BTreeMap<usize, u64>,
    /// Written since the last snapshot.
    unsynced: Vec<PathBuf>,
    /// Files that were replaced, and the round that did.
    replaced: Vec<(u64, PathBuf)>,
}

impl DiskStore {
    /// A store in this folder, which is made when first needed.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..Self::default() }
    }

    fn path(&self, client: usize, round: u64) -> PathBuf {
        self.folder.join((client / CLIENTS_PER_FOLDER).to_string()).join(format!("{client}-{round}.state"))
    }

    fn write(&self, path: &Path, state: &Parameters) -> Result<(), WriteError> {
        if let Some(folder) = path.parent() {
            create_folder(folder, Readers::Owner)?;
        }
        let bytes = encode_state(state).map_err(|error| write_failed(path)(std::io::Error::other(error)))?;
        // Replaced, not written into: whatever has that name is not followed, and only the user can read it.
        write_unsynced(path, &bytes)
    }

    fn sync(&mut self) -> Result<(), WriteError> {
        let mut folders = BTreeSet::new();
        for path in self.unsynced.drain(..) {
            // One that was replaced and removed since is no loss.
            if let Ok(file) = File::open(&path) {
                file.sync_all().map_err(write_failed(&path))?;
                folders.extend(path.parent().map(Path::to_owned));
            }
        }
        if !folders.is_empty() {
            folders.insert(self.folder.clone());
        }
        folders.iter().try_for_each(|folder| sync_folder(folder).map_err(write_failed(folder)))
    }
}

/// Removes clients' states from a run's folder, and the folder where nothing else is in it.
pub(crate) fn remove_states(folder: &Path) {
    // What cannot be removed is in nobody's way: another run has a folder of its own.
    for (path, _, _) in state_files(folder) {
        let _ = remove_file(&path);
    }
    let _ = remove_file(&folder.join(OWNER));
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let _ = remove_temporary_in(&entry.path());
        remove_empty_folder(&entry.path());
    }
    remove_empty_folder(folder);
}

/// The files of clients' states in a run's folder, with their client and round.
fn state_files(folder: &Path) -> impl Iterator<Item = (PathBuf, usize, u64)> {
    let folders = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).flatten();
    files.filter_map(|entry| {
        let path = entry.ok()?.path();
        let (client, round) = path.file_name()?.to_str()?.strip_suffix(".state")?.split_once('-')?;
        let (client, round) = (client.parse().ok()?, round.parse().ok()?);
        Some((path, client, round))
    })
}

/// A client's file that cannot be read.
#[derive(Debug, Error)]
#[error("{path}: {source}", path = path.display())]
struct ReadError {
    path: PathBuf,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl ClientStore for DiskStore {
    fn get(&self, client: usize) -> Result<Option<Kept>, StoreError> {
        let Some(&round) = self.rounds.get(&client) else { return Ok(None) };
        let path = self.path(client, round);
        let read = || -> Result<Parameters, Box<dyn std::error::Error + Send + Sync>> {
            Ok(decode_state(&fs::read(&path)?)?)
        };
        match read() {
            Ok(state) => Ok(Some(Kept::Parameters(state))),
            Err(source) => {
                Err(StoreError::Lost { client, source: Box::new(ReadError { path: path.clone(), source }) })
            }
        }
    }

    /// The file is written at once: nothing of it is held in memory.
    fn stage(&self, client: usize, state: Kept, round: u64) -> Result<(), StoreError> {
        let Kept::Parameters(state) = state else { return Err(StoreError::AtSite { client }) };
        self.write(&self.path(client, round), &state).map_err(|error| StoreError::Write(Box::new(error)))
    }

    fn commit(&mut self, client: usize, round: u64) -> Result<(), StoreError> {
        self.unsynced.push(self.path(client, round));
        if let Some(before) = self.rounds.insert(client, round).filter(|&before| before != round) {
            self.replaced.push((round, self.path(client, before)));
        }
        Ok(())
    }

    fn discard(&mut self, client: usize, round: u64) {
        // One that stays behind is removed when the run continues from a checkpoint.
        let _ = remove_file(&self.path(client, round));
    }

    fn len(&self) -> usize {
        self.rounds.len()
    }

    fn snapshot(&mut self) -> Result<ClientStates, StoreError> {
        self.sync().map_err(|error| StoreError::Write(Box::new(error)))?;
        Ok(ClientStates::Stored(self.rounds.clone()))
    }

    /// Files of later rounds are removed; those that were replaced before go once no checkpoint can need them. Cost: every
    /// file is read once, so that one that is lost or damaged is known before the first round.
    fn restore(&mut self, states: ClientStates, now: u64) -> Result<(), StoreError> {
        let ClientStates::Stored(rounds) = states else { return Err(StoreError::NotStored) };
        self.rounds = rounds;
        for &client in self.rounds.keys() {
            self.get(client)?;
        }
        self.unsynced.clear();
        self.replaced.clear();
        for (path, client, round) in state_files(&self.folder) {
            if round > now {
                let _ = remove_file(&path);
            } else if self.rounds.get(&client) != Some(&round) {
                self.replaced.push((now, path));
            }
        }
        Ok(())
    }

    fn discard_before(&mut self, oldest: u64) {
        self.replaced.retain(|(round, path)| {
            let needed = *round > oldest;
            if !needed {
                let _ = remove_file(path);
            }
            needed
        });
    }
}

#[cfg(test)]
mod tests {
    use fedsi_fl::MemoryStore;
    use fedsi_fl::parameters::HeadSamples;

    use super::*;

    fn part(value: f32) -> Kept {
        Parameters::Samples(HeadSamples { values: vec![value, 2.0], samples: vec![3.0; 3] }).into()
    }

    fn put(store: &mut dyn ClientStore, client: usize, value: f32, round: u64) {
        store.stage(client, part(value), round).unwrap();
        store.commit(client, round).unwrap();
    }

    #[test]
    fn on_disk_is_as_in_memory() {
        let scratch = tempfile::tempdir().unwrap();
        let mut stores: [Box<dyn ClientStore>; 2] =
            [Box::new(MemoryStore::default()), Box::new(DiskStore::new(&scratch.path().join("s")))];
        for store in &mut stores {
            assert!(store.is_empty());
            for (client, round) in [(3, 1), (70_000, 1), (3, 2)] {
                put(store.as_mut(), client, round as f32 + client as f32, round);
            }
            assert_eq!(store.len(), 2);
            assert_eq!(store.get(3).unwrap().unwrap(), part(5.0));
            assert_eq!(store.get(70_000).unwrap().unwrap(), part(70_001.0));
            assert_eq!(store.get(4).unwrap(), None);
            store.stage(3, part(9.0), 3).unwrap();
            assert_eq!(store.get(3).unwrap().unwrap(), part(5.0), "what is staged does not count yet");
            store.discard(3, 3);
            assert_eq!(store.get(3).unwrap().unwrap(), part(5.0), "what is discarded never does");
        }
    }

    /// A snapshot's files stay until no checkpoint that is kept names them.
    #[test]
    fn a_snapshot_can_be_gone_back_to() {
        let scratch = tempfile::tempdir().unwrap();
        let mut store = DiskStore::new(scratch.path());
        put(&mut store, 1, 1.0, 1);
        let first = store.snapshot().unwrap();
        put(&mut store, 1, 2.0, 2);
        put(&mut store, 1, 3.0, 3);
        store.discard_before(1);
        store.restore(first.clone(), 1).unwrap();
        assert_eq!(store.get(1).unwrap().unwrap(), part(1.0));
        put(&mut store, 1, 2.0, 2);
        store.snapshot().unwrap();
        store.discard_before(2);
        let error = store.restore(first, 1).unwrap_err().to_string();
        assert!(error.contains("client 1"), "{error}");
    }

    #[test]
    fn damage_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let mut store = DiskStore::new(scratch.path());
        put(&mut store, 7, 1.0, 4);
        let file = scratch.path().join("0/7-4.state");
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
        let error = store.get(7).unwrap_err().to_string();
        assert!(error.contains("client 7") && error.contains("checksum"), "{error}");
    }
}
