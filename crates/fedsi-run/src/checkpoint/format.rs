//! A checkpoint's bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `FEDSI-CP` |
//! | 4 | version, little-endian: readable before anything else is trusted |
//! | 32 | SHA-256 of the version and all that follows |
//! | rest | a safetensors file: the state, with where the run was in its metadata |
//!
//! | tensor | what |
//! |---|---|
//! | `shared`, `variance` (F32) | the server's values and, where it holds a Gaussian, variances; of further modes under `mode.M.` |
//! | `metrics` (U8) | the lines of `metrics.jsonl` |
//! | `client.ID` (U8) | what a client keeps, as the bytes of a message |
//!
//! The metadata of a run with privacy has its key: such a checkpoint is for nobody but the run's owner.
//!
//! Where clients' parts are on disk, the metadata says of which round each one's file is, and each file has such a message
//! behind the same header and checksum.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedsi_data::hexadecimal;
use fedsi_fl::ClientStates;
use fedsi_fl::calibration::Calibration;
use fedsi_fl::coordinator::Snapshot;
use fedsi_fl::parameters::Parameters;
use fedsi_fl::server::ServerState;
use fedsi_fl::wire::{WireError, decode_parameters, encode_parameters, mode_prefix, read_shared};
use fedsi_random::SecretKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::{Checkpoint, Progress};
use crate::origin::Origin;
use crate::tensor_file::{NamedTensor, TensorFile, TensorFileError, tensor_bytes};

const MAGIC: &[u8; 8] = b"FEDSI-CP";

/// The version that is written, and the only one that is read. Version 1 was fedsi 0.1's; version 2
/// had one network.
pub(super) const VERSION: u32 = 3;

/// Where the safetensors file begins.
pub const BODY: usize = 8 + 4 + 32;

/// What the metadata says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointMetadata {
    round: u64,
    #[serde(default)]
    skipped_in_a_row: u64,
    modes: usize,
    calibration: Calibration,
    settings: String,
    origin: Origin,
    progress: Progress,
    /// The rounds of clients' files, where their parts are on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_disk: Option<BTreeMap<usize, u64>>,
    /// The key of draws that are not to be guessed, as hexadecimal digits, where there is privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    privacy_key: Option<String>,
}

/// Why bytes are no checkpoint. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointFormatError {
    /// Something else altogether, or cut short within its header.
    #[error("it is not a checkpoint, or truncated")]
    NotACheckpoint,
    /// Written by an older or newer fedsi.
    #[error("it is of version {version}, and this fedsi reads {VERSION}")]
    OtherVersion {
        /// Its version.
        version: u32,
    },
    /// Its bytes are not those that were written.
    #[error("its checksum does not match: the file is truncated or modified")]
    Checksum,
    /// What it holds is not a run's state.
    #[error(transparent)]
    Tensors(#[from] TensorFileError),
    /// What a client keeps cannot be written or read.
    #[error(transparent)]
    Client(#[from] WireError),
    /// A privacy key that is none. It is not shown.
    #[error("its privacy key is not 64 hexadecimal digits")]
    PrivacyKey,
    /// A tensor that no version has.
    #[error("its tensor `{name}` is unknown")]
    UnknownTensor {
        /// The tensor.
        name: String,
    },
}

/// A body behind the header and checksum of a checkpoint.
#[must_use]
pub fn sealed(body: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(BODY + body.len());
    all.extend_from_slice(MAGIC);
    all.extend_from_slice(&VERSION.to_le_bytes());
    all.extend_from_slice(&checksum(&VERSION.to_le_bytes(), body));
    all.extend_from_slice(body);
    all
}

/// The tensor file behind a header and checksum that [`sealed`] wrote.
fn open(bytes: &[u8]) -> Result<&[u8], CheckpointFormatError> {
    if bytes.len() < BODY || &bytes[..8] != MAGIC {
        return Err(CheckpointFormatError::NotACheckpoint);
    }
    let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    let (sum, body) = (&bytes[12..BODY], &bytes[BODY..]);
    let whole = checksum(&bytes[8..12], body).as_slice() == sum;
    // Version 1 had a checksum of the body alone.
    if version != VERSION && (whole || Sha256::digest(body).as_slice() == sum) {
        return Err(CheckpointFormatError::OtherVersion { version });
    }
    if whole { Ok(body) } else { Err(CheckpointFormatError::Checksum) }
}

fn checksum(version: &[u8], body: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(version).chain_update(body).finalize().into()
}

/// What a client keeps, as bytes.
pub(crate) fn encode_state(state: &Parameters) -> Result<Vec<u8>, CheckpointFormatError> {
    Ok(sealed(&encode_parameters(state)?))
}

/// Reads what [`encode_state`] wrote.
pub(crate) fn decode_state(bytes: &[u8]) -> Result<Parameters, CheckpointFormatError> {
    Ok(decode_parameters(open(bytes)?)?)
}

/// The checkpoint as bytes.
pub(super) fn encode(checkpoint: &Checkpoint) -> Result<Vec<u8>, CheckpointFormatError> {
    let Checkpoint { snapshot, settings, origin, metrics, progress } = checkpoint;
    let ServerState { round, skipped_in_a_row, modes, calibration, privacy_key } = &snapshot.server;
    let vector = |name: &str, values: &[f32]| NamedTensor::f32(name, vec![values.len()], values);
    let mut tensors = Vec::new();
    for (mode, shared) in modes.iter().enumerate() {
        let prefix = mode_prefix(mode);
        tensors.push(vector("shared", shared.values()).prefixed(&prefix));
        tensors.extend(shared.variance().map(|variance| vector("variance", variance).prefixed(&prefix)));
    }
    tensors.push(NamedTensor::u8("metrics", vec![metrics.len()], metrics.as_bytes().to_vec()));
    let on_disk = match &snapshot.clients {
        ClientStates::Stored(rounds) => Some(rounds.clone()),
        ClientStates::Held(states) => {
            for (client, state) in states {
                let bytes = encode_parameters(state)?;
                tensors.push(NamedTensor::u8(&format!("client.{client}"), vec![bytes.len()], bytes));
            }
            None
        }
    };
    let entry = CheckpointMetadata {
        round: *round,
        skipped_in_a_row: *skipped_in_a_row,
        modes: modes.len(),
        calibration: *calibration,
        settings: settings.clone(),
        origin: origin.clone(),
        progress: progress.clone(),
        on_disk,
        privacy_key: privacy_key.as_ref().map(|key| hexadecimal(key.bytes())),
    };
    let entry = serde_json::to_value(&entry).map_err(TensorFileError::Entry)?;
    Ok(sealed(&tensor_bytes(&tensors, Some(&entry))?))
}

/// Reads what [`encode`] wrote.
pub(super) fn decode(bytes: &[u8]) -> Result<Checkpoint, CheckpointFormatError> {
    let file = TensorFile::parse(open(bytes)?)?;
    let CheckpointMetadata {
        round,
        skipped_in_a_row,
        modes,
        calibration,
        settings,
        origin,
        progress,
        on_disk,
        privacy_key,
    } = file.entry()?;
    let privacy_key = privacy_key.as_deref().map(parse_key).transpose()?;
    let metrics = String::from_utf8(file.u8("metrics")?.to_vec());
    let metrics = metrics.map_err(|_| TensorFileError::invalid("metrics", "is not text"))?;
    let mut states: BTreeMap<usize, Parameters> = BTreeMap::new();
    for name in file.names() {
        let Some(client) = name.strip_prefix("client.") else { continue };
        let unknown = |_| CheckpointFormatError::UnknownTensor { name: name.to_owned() };
        states.insert(client.parse().map_err(unknown)?, decode_parameters(file.u8(name)?)?);
    }
    let clients = on_disk.map_or(ClientStates::Held(states), ClientStates::Stored);
    let shared = |mode: usize| {
        let file = file.within(&mode_prefix(mode));
        Ok(Arc::new(read_shared(&file, file.f32("shared")?, "variance")?))
    };
    // As many as there are tensors for, whatever the metadata says.
    let modes = (0..modes).map(shared).collect::<Result<_, CheckpointFormatError>>()?;
    let server = ServerState { round, skipped_in_a_row, modes, calibration, privacy_key };
    Ok(Checkpoint { snapshot: Snapshot { server, clients }, settings, origin, metrics, progress })
}

/// Reads a key from its hexadecimal digits.
fn parse_key(text: &str) -> Result<SecretKey, CheckpointFormatError> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let digits: Option<Vec<u8>> = text.as_bytes().iter().map(digit).collect();
    let digits = digits.filter(|digits| digits.len() == 64).ok_or(CheckpointFormatError::PrivacyKey)?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair.iter().fold(0, |sum, digit| 16 * sum + digit);
    }
    Ok(SecretKey::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Seconds;
    use fedsi_data::DataDigest;
    use fedsi_fl::coordinator::Tally;
    use fedsi_fl::parameters::{Gaussian, HeadSamples, SharedParameters};
    use fedsi_fl::server::Exclusion;
    use fedsi_fl::wire::Traffic;
    use proptest::prelude::*;

    fn checkpoint() -> Checkpoint {
        let mean_field = Gaussian { mean: vec![1.0, -2.0], variance: vec![0.5, f32::MIN_POSITIVE] };
        let sampled = HeadSamples { values: vec![3.0], samples: vec![1.0, 2.0, 3.0] };
        let clients = [(0, Parameters::Gaussian(mean_field)), (12, Parameters::Samples(sampled))];
        let shared = Gaussian { mean: vec![0.25, 1e-30, -5.0], variance: vec![1.0, 2.0, 3.0] };
        let other = Gaussian { mean: vec![1.0, 2.0, 3.0], variance: vec![0.5; 3] };
        Checkpoint {
            snapshot: Snapshot {
                server: ServerState {
                    round: 7,
                    skipped_in_a_row: 2,
                    modes: vec![
                        Arc::new(SharedParameters::Gaussian(shared)),
                        Arc::new(SharedParameters::Gaussian(other)),
                    ],
                    calibration: Calibration { prior_variance: Some(0.316), ..Calibration::default() },
                    privacy_key: Some(SecretKey::from_bytes(std::array::from_fn(|at| 7 * at as u8))),
                },
                clients: ClientStates::Held(clients.into()),
            },
            settings: "abc".to_owned(),
            origin: Origin {
                data: DataDigest { files: vec![], partition: "12".to_owned() },
                nonce: Some("7".to_owned()),
                states: Some("states/run-1".into()),
            },
            metrics: "{\"round\": 1}\n".to_owned(),
            progress: Progress {
                seconds: Seconds { train: 1.5, posterior: 0.25, evaluate: 0.0, total: 2.0 },
                bytes: Traffic { up: 9, down: 10 },
                trouble: Tally { left_out: [(Exclusion::Late, 3)].into(), skipped_rounds: 2 },
                cpus: vec!["x86-64 AVX2".to_owned()],
            },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let whole = checkpoint();
        assert_eq!(decode(&encode(&whole).unwrap()).unwrap(), whole);
        let mut bare = checkpoint();
        bare.snapshot.server.modes = vec![Arc::new(SharedParameters::Point(vec![]))];
        bare.snapshot.server.calibration = Calibration::default();
        bare.snapshot.server.privacy_key = None;
        bare.snapshot.clients = ClientStates::Stored([(4, 9), (100_000, 2)].into());
        assert_eq!(decode(&encode(&bare).unwrap()).unwrap(), bare, "a method that shares and keeps nothing");
    }

    #[test]
    fn other_versions_are_refused_by_their_number() {
        let bytes = encode(&checkpoint()).unwrap();
        let body = &bytes[BODY..];
        for (version, sum) in [(9_u8, checksum(&[9, 0, 0, 0], body)), (1, Sha256::digest(body).into())] {
            let other = [&bytes[..8], &[version, 0, 0, 0], &sum, body].concat();
            let error = decode(&other).unwrap_err();
            assert!(error.to_string().contains(&format!("version {version}")), "{error}");
        }
        // A version that merely changed is damage: no other fedsi could read the file.
        let flipped = [&bytes[..8], &[9], &bytes[9..]].concat();
        assert!(matches!(decode(&flipped), Err(CheckpointFormatError::Checksum)));
    }

    #[test]
    fn a_key_is_64_digits() {
        let key = SecretKey::from_bytes([0xa7; 32]);
        assert_eq!(parse_key(&hexadecimal(key.bytes())).unwrap(), key);
        for wrong in ["", "a7", &"g".repeat(64), &"a".repeat(63), &"é".repeat(32)] {
            let error = parse_key(wrong).unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits") && !error.contains("aaa"), "{error}");
        }
    }

    proptest! {
        /// Any change is noticed, any cut too.
        #[test]
        fn damage_is_noticed(at in 0_usize..2000, bit in 0_u32..8, cut in 0_usize..2000) {
            let whole = encode(&checkpoint()).unwrap();
            let mut changed = whole.clone();
            let at = at % changed.len();
            changed[at] ^= 1 << bit;
            prop_assert!(decode(&changed).is_err(), "byte {} changed", at);
            prop_assert!(decode(&whole[..cut % whole.len()]).is_err());
        }
    }
}
