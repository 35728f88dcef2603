//! A checkpoint's bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `FEDSI-CP` |
//! | 4 | version, little-endian: readable before anything else is trusted |
//! | 32 | SHA-256 of all that follows |
//! | rest | a safetensors file: the state, with where the run was in its metadata |
//!
//! | tensor (F32) | what |
//! |---|---|
//! | `shared`, `variance` | the server's values and, where it holds a Gaussian, variances |
//! | `client.ID.values`, `.deviation`, `.samples` | what a client keeps; rows that are empty are left out |
//!
//! Where clients' parts are on disk, the metadata says of which round each one's file is, and each file has the same form
//! with the rows `values`, `deviation` and `samples`.

use std::collections::BTreeMap;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Checkpoint, Progress};
use crate::aggregate::Shared;
use crate::files::floats;
use crate::personal::Personal;
use crate::simulation::Snapshot;
use crate::state::State;

const MAGIC: &[u8; 8] = b"FEDSI-CP";

/// The version that is written. Older ones are read too; there is none yet.
pub(super) const VERSION: u32 = 1;

/// Where the safetensors file begins.
pub const BODY: usize = 8 + 4 + 32;

/// What the metadata says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    round: u64,
    #[serde(default)]
    skipped_in_a_row: u64,
    chosen: Option<f64>,
    settings: String,
    progress: Progress,
    /// The rounds of clients' files, where their parts are on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_disk: Option<BTreeMap<usize, u64>>,
}

/// Why bytes are no checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Written by a newer fedsi.
    TooNew { version: u32 },
    /// Cut short, changed, or something else altogether.
    Damaged(String),
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooNew { version } => {
                write!(f, "it is of version {version}, and this fedsi knows {VERSION}")
            }
            Self::Damaged(reason) => f.write_str(reason),
        }
    }
}

/// Rows of numbers on their way.
type Rows<'a> = Vec<(String, &'a [f32])>;

/// A client's rows; those that are empty are left out.
fn state_rows<'a>(prefix: &str, state: &'a State, rows: &mut Rows<'a>) {
    let State { values, deviation, samples } = state;
    for (what, row) in [("values", values), ("deviation", deviation), ("samples", samples)] {
        if !row.is_empty() {
            rows.push((format!("{prefix}{what}"), row));
        }
    }
}

/// Header, checksum and a safetensors file of these rows.
fn seal(rows: &Rows<'_>, about: String) -> Result<Vec<u8>, String> {
    let bytes = |row: &[f32]| -> Vec<u8> { row.iter().flat_map(|value| value.to_le_bytes()).collect() };
    let data: Vec<Vec<u8>> = rows.iter().map(|(_, row)| bytes(row)).collect();
    let mut views = Vec::with_capacity(rows.len());
    for ((name, row), data) in rows.iter().zip(&data) {
        let view = TensorView::new(Dtype::F32, vec![row.len()], data).map_err(|error| error.to_string())?;
        views.push((name.as_str(), view));
    }
    let body = safetensors::serialize(views, Some([("fedsi".to_owned(), about)].into()))
        .map_err(|error| error.to_string())?;
    Ok(sealed(&body))
}

/// A body behind the header and checksum of a checkpoint.
#[must_use]
pub fn sealed(body: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(BODY + body.len());
    all.extend_from_slice(MAGIC);
    all.extend_from_slice(&VERSION.to_le_bytes());
    all.extend_from_slice(&Sha256::digest(body));
    all.extend_from_slice(body);
    all
}

/// The safetensors file in what [`seal`] made.
fn open(bytes: &[u8]) -> Result<&[u8], Unreadable> {
    let damaged = |reason: &str| Unreadable::Damaged(reason.to_owned());
    if bytes.len() < BODY || &bytes[..8] != MAGIC {
        return Err(damaged("it is no checkpoint, or cut short"));
    }
    let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    if version > VERSION {
        return Err(Unreadable::TooNew { version });
    }
    let (sum, body) = (&bytes[12..BODY], &bytes[BODY..]);
    if Sha256::digest(body).as_slice() != sum {
        return Err(damaged("its checksum does not fit: it was cut short or changed"));
    }
    Ok(body)
}

fn broken(error: impl std::fmt::Display) -> Unreadable {
    Unreadable::Damaged(error.to_string())
}

/// What a client keeps, as bytes.
pub(crate) fn encode_state(state: &State) -> Result<Vec<u8>, String> {
    let mut rows = Vec::new();
    state_rows("", state, &mut rows);
    seal(&rows, "{}".to_owned())
}

/// Reads what [`encode_state`] wrote.
pub(crate) fn decode_state(bytes: &[u8]) -> Result<State, String> {
    let body = open(bytes).map_err(|error| error.to_string())?;
    let tensors = SafeTensors::deserialize(body).map_err(|error| error.to_string())?;
    let names = tensors.names();
    let row = |name: &str| if names.contains(&name) { floats(&tensors, name) } else { Ok(Vec::new()) };
    Ok(State { values: row("values")?, deviation: row("deviation")?, samples: row("samples")? })
}

/// The checkpoint as bytes.
pub(super) fn encode(checkpoint: &Checkpoint) -> Result<Vec<u8>, String> {
    let Checkpoint { snapshot, settings, progress } = checkpoint;
    let Snapshot { round, skipped_in_a_row, shared, personal, chosen } = snapshot;
    let mut rows: Rows<'_> = vec![("shared".to_owned(), &shared.values)];
    rows.extend(shared.variance.as_deref().map(|variance| ("variance".to_owned(), variance)));
    let on_disk = match personal {
        Personal::OnDisk(rounds) => Some(rounds.clone()),
        Personal::Here(parts) => {
            for (client, state) in parts {
                state_rows(&format!("client.{client}."), state, &mut rows);
            }
            None
        }
    };
    let about = About {
        round: *round,
        skipped_in_a_row: *skipped_in_a_row,
        chosen: *chosen,
        settings: settings.clone(),
        progress: progress.clone(),
        on_disk,
    };
    seal(&rows, serde_json::to_string(&about).map_err(|error| error.to_string())?)
}

/// Reads what [`encode`] wrote.
pub(super) fn decode(bytes: &[u8]) -> Result<Checkpoint, Unreadable> {
    let body = open(bytes)?;
    let (_, header) = SafeTensors::read_metadata(body).map_err(broken)?;
    let about = header.metadata().as_ref().and_then(|map| map.get("fedsi"));
    let about = about.ok_or_else(|| broken("it does not say where the run was"))?;
    let About { round, skipped_in_a_row, chosen, settings, progress, on_disk } =
        serde_json::from_str(about).map_err(broken)?;
    let tensors = SafeTensors::deserialize(body).map_err(broken)?;
    let row = |name: &str| floats(&tensors, name).map_err(broken);
    let names = tensors.names();
    let variance = if names.contains(&"variance") { Some(row("variance")?) } else { None };
    let mut parts: BTreeMap<usize, State> = BTreeMap::new();
    for name in names {
        let Some((client, what)) = name.strip_prefix("client.").and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let client: usize = client.parse().map_err(|_| broken("it names a client that is no number"))?;
        let state = parts.entry(client).or_default();
        match what {
            "values" => state.values = row(name)?,
            "deviation" => state.deviation = row(name)?,
            "samples" => state.samples = row(name)?,
            _ => return Err(broken("it holds something unknown of a client")),
        }
    }
    let personal = on_disk.map_or(Personal::Here(parts), Personal::OnDisk);
    let shared = Shared { values: row("shared")?, variance };
    let snapshot = Snapshot { round, skipped_in_a_row, shared, personal, chosen };
    Ok(Checkpoint { snapshot, settings, progress })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exclusion::{Exclusion, Tally};
    use crate::record::{Seconds, Traffic};
    use proptest::prelude::*;

    fn checkpoint() -> Checkpoint {
        let mean_field =
            State { values: vec![1.0, -2.0], deviation: vec![0.5, f32::MIN_POSITIVE], samples: vec![] };
        let sampled = State { values: vec![3.0], deviation: vec![], samples: vec![1.0, 2.0, 3.0] };
        Checkpoint {
            snapshot: Snapshot {
                round: 7,
                skipped_in_a_row: 2,
                shared: Shared { values: vec![0.25, 1e-30, -5.0], variance: Some(vec![1.0, 2.0, 3.0]) },
                personal: Personal::Here([(0, mean_field), (12, sampled)].into()),
                chosen: Some(0.316),
            },
            settings: "abc".to_owned(),
            progress: Progress {
                metrics: 1234,
                seconds: Seconds { train: 1.5, posterior: 0.25, evaluate: 0.0, total: 2.0 },
                bytes: Traffic { up: 9, down: 10 },
                trouble: Tally { left_out: [(Exclusion::Late, 3)].into(), skipped_rounds: 2 },
            },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let whole = checkpoint();
        assert_eq!(decode(&encode(&whole).unwrap()).unwrap(), whole);
        let mut bare = checkpoint();
        bare.snapshot = Snapshot {
            shared: Shared::point(vec![]),
            personal: Personal::OnDisk([(4, 9), (100_000, 2)].into()),
            chosen: None,
            ..bare.snapshot
        };
        assert_eq!(decode(&encode(&bare).unwrap()).unwrap(), bare, "a method that shares and keeps nothing");
    }

    #[test]
    fn newer_ones_are_refused_by_their_version() {
        let mut bytes = encode(&checkpoint()).unwrap();
        bytes[8] = 9;
        assert_eq!(decode(&bytes), Err(Unreadable::TooNew { version: 9 }));
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
