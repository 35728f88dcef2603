//! Damage done to good files.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::arrays::{floats, npy, tensors_bytes};
use super::images::{batch, gzip, images};
use super::tables::{TABLE, table_spec};
use super::*;

/// What may be done to a file: bytes overwritten, cut off, or added.
#[derive(Clone, Debug)]
struct Damage {
    overwrite: Vec<(prop::sample::Index, u8)>,
    keep: Option<prop::sample::Index>,
    add: Vec<u8>,
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = prop_oneof![any::<u8>(), Just(0), Just(255), Just(b'9'), Just(b'('), Just(b',')];
    let overwrite = prop::collection::vec((any::<prop::sample::Index>(), bytes), 0..4);
    let keep = prop::option::weighted(0.3, any::<prop::sample::Index>());
    let add = prop::collection::vec(any::<u8>(), 0..3);
    (overwrite, keep, add).prop_map(|(overwrite, keep, add)| Damage { overwrite, keep, add })
}

impl Damage {
    /// Most of it near the beginning, where the headers are.
    fn apply(&self, mut bytes: Vec<u8>, near: bool) -> Vec<u8> {
        let reach = if near { bytes.len().min(160) } else { bytes.len() };
        for (at, byte) in &self.overwrite {
            bytes[at.index(reach)] = *byte;
        }
        if let Some(keep) = self.keep {
            bytes.truncate(keep.index(bytes.len()));
        }
        bytes.extend(&self.add);
        bytes
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens to a file: it is read or refused on one line; nothing panics.
    #[test]
    fn damaged_files_never_panic(damage in damage(), near in any::<bool>()) {
        let dir = TempDir::new().unwrap();
        let put = |name: &str, bytes: Vec<u8>| fs::write(dir.path().join(name), bytes).unwrap();
        let outcome = |result: Result<Box<dyn Federation>, DataError>| match result {
            Ok(federation) => drop(federation.samples(0, Split::Train)),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        };
        put("d.safetensors", damage.apply(tensors_bytes(), near));
        outcome(open_spec(files(dir.path(), "d.safetensors"), PartitionKind::Iid));
        put("t.csv", damage.apply(TABLE.into(), near));
        outcome(open_spec(table_spec(dir.path()), PartitionKind::Natural));
        put("y.npy", npy("|u1", "(4,)", &[0, 1, 0, 1]));
        put("X.npy", damage.apply(npy("<f4", "(4, 2)", &floats(8)), near));
        let arrays = FilesSpec { target: "y.npy".into(), ..files(dir.path(), "X.npy") };
        outcome(open_spec(arrays, PartitionKind::Iid));
        for bytes in [images(2), gzip(&images(2))] {
            put("images", damage.apply(bytes, near));
            if let Err(error) = idx::read(&dir.path().join("images"), 3) {
                prop_assert!(!error.to_string().contains('\n'), "{}", error);
            }
        }
        put("batch.bin", damage.apply(batch(2), near));
        let _ = cifar::read_batch(&dir.path().join("batch.bin"), &mut Vec::new(), &mut Vec::new());
    }
}
