//! Clients that are evaluated, a record each: an evaluation that is stopped goes on at the client it had come to.
//!
//! The file begins with 8 bytes that name the format and the id of the run (32 bytes of text); what follows is a record
//! after the other in the order of clients, each behind its length and its SHA-256. Records are appended and synced now
//! and then: a process that is killed loses none that was written, and of one that is cut short or damaged nothing is used,
//! nor of those after it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::evaluated_client::EvaluatedClient;
use crate::files::{
    Readers, WriteError, append, create_folder, open_to_append, remove_file, write_failed, write_for,
};

/// The log's name in the folder `checkpoint`.
pub(crate) const FILE: &str = "evaluation.fedsi";

const MAGIC: &[u8; 8] = b"FEDSI-E2";

/// Bytes before a record: its length and its checksum.
const RECORD: usize = 8 + 32;

/// How often records are made to last a power cut.
const SYNC_EVERY: Duration = Duration::from_secs(5);

/// The log of one evaluation, to append to.
#[derive(Debug)]
pub(crate) struct EvaluationLog {
    path: PathBuf,
    file: File,
    synced: Instant,
}

impl EvaluationLog {
    /// Opens the log of a run, and what it holds: clients 0 up to the first that is not evaluated, or whose model is not
    /// there any more. A log of another run, or none, is begun anew. Costs reading it whole.
    pub(crate) fn open(
        run: &Path,
        id: &str,
        model_is_there: impl Fn(usize) -> bool,
    ) -> Result<(Self, Vec<EvaluatedClient>), WriteError> {
        let folder = run.join("checkpoint");
        create_folder(&folder, Readers::Umask)?;
        let path = folder.join(FILE);
        let bytes = fs::read(&path).unwrap_or_default();
        let header = [MAGIC.as_slice(), id.as_bytes()].concat();
        let records = bytes.strip_prefix(header.as_slice());
        let usable = |client: &EvaluatedClient| !client.has_model || model_is_there(client.client);
        let (clients, used) = records.map_or((Vec::new(), 0), |records| read_records(records, usable));
        let used = header.len() + used;
        if records.is_none() || used < bytes.len() {
            // Whole under its name before anything is appended: what is cut off cannot come back.
            write_for(
                Readers::Owner,
                &path,
                bytes.get(..used).filter(|_| records.is_some()).unwrap_or(&header),
            )?;
        }
        let file = open_to_append(&path, Readers::Owner)?;
        Ok((Self { path, file, synced: Instant::now() }, clients))
    }

    /// Appends the next client.
    pub(crate) fn add(&mut self, client: &EvaluatedClient) -> Result<(), WriteError> {
        let invalid = |error| write_failed(&self.path)(std::io::Error::other(error));
        let body = client.encode().map_err(invalid)?;
        let mut record = Vec::with_capacity(RECORD + body.len());
        record.extend_from_slice(&(body.len() as u64).to_le_bytes());
        record.extend_from_slice(&Sha256::digest(&body));
        record.extend_from_slice(&body);
        append(&mut self.file, &self.path, &record)?;
        if self.synced.elapsed() >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// Makes all records last.
    pub(crate) fn sync(&mut self) -> Result<(), WriteError> {
        self.synced = Instant::now();
        self.file.sync_data().map_err(write_failed(&self.path))
    }
}

/// Removes the log: the run begins anew.
pub(crate) fn remove(run: &Path) -> Result<(), WriteError> {
    remove_file(&run.join("checkpoint").join(FILE))
}

/// The records that are whole and in order, and how many bytes they have.
fn read_records(bytes: &[u8], usable: impl Fn(&EvaluatedClient) -> bool) -> (Vec<EvaluatedClient>, usize) {
    let (mut clients, mut rest) = (Vec::new(), bytes);
    while let Some((client, after)) = read_record(rest) {
        if client.client != clients.len() || !usable(&client) {
            break;
        }
        clients.push(client);
        rest = after;
    }
    (clients, bytes.len() - rest.len())
}

fn read_record(bytes: &[u8]) -> Option<(EvaluatedClient, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (sum, rest) = rest.split_first_chunk::<32>()?;
    let (body, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    if Sha256::digest(body).as_slice() != sum {
        return None;
    }
    Some((EvaluatedClient::decode(body).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use fedsi_fl::client::Predictions;

    use super::*;

    fn evaluated(client: usize) -> EvaluatedClient {
        let predictions =
            Predictions::Classes { classes: 2, probabilities: vec![0.25, 0.75], labels: vec![1] };
        EvaluatedClient {
            client,
            samples: 1,
            posterior: None,
            predictions,
            problem: None,
            strangeness: Some(vec![0.25]),
            further_probabilities: vec![0.1, 0.9],
            has_model: true,
            seconds: 1.0,
            subnetwork: None,
        }
    }

    fn ids(clients: &[EvaluatedClient]) -> Vec<usize> {
        clients.iter().map(|client| client.client).collect()
    }

    const ID: &str = "0123456789abcdef0123456789abcdef";

    /// Wherever a record is cut short or damaged, those before it are used and it is written again.
    #[test]
    fn what_is_whole_is_used() {
        let scratch = tempfile::tempdir().unwrap();
        // The models of clients below a number are there.
        let open = |id: &str, below: usize| {
            EvaluationLog::open(scratch.path(), id, |client| client < below).unwrap()
        };
        let (mut log, found) = open(ID, 9);
        assert!(found.is_empty());
        (0..3).for_each(|client| log.add(&evaluated(client)).unwrap());
        drop(log);
        let path = scratch.path().join("checkpoint").join(FILE);
        let whole = fs::read(&path).unwrap();
        let record = (whole.len() - MAGIC.len() - ID.len()) / 3;
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut log, found) = open(ID, 9);
            let expected = cut.saturating_sub(MAGIC.len() + ID.len()) / record;
            assert_eq!(ids(&found), (0..expected).collect::<Vec<_>>(), "cut at {cut}");
            (expected..3).for_each(|client| log.add(&evaluated(client)).unwrap());
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        let mut damaged = whole.clone();
        damaged[MAGIC.len() + ID.len() + record + RECORD + 5] ^= 4;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(ids(&open(ID, 9).1), [0]);
        fs::write(&path, &whole).unwrap();
        let other = ID.replace('0', "f");
        assert!(open(&other, 9).1.is_empty(), "of another run");
        fs::write(&path, &whole).unwrap();
        assert_eq!(ids(&open(ID, 1).1), [0], "a client whose model is gone is evaluated again");
    }
}
