//! Damage that headers and lengths are most likely to be wrong about.

use rand::{Rng, RngExt as _};

/// Bytes that mean something in one of the formats.
const TELLING: [u8; 14] = [0, 1, 8, 127, 128, 255, b'9', b'-', b'[', b',', b'"', b'{', b'(', b'\n'];

/// Overwrites, inserts, removes, repeats or cuts off bytes of `seed`: mostly near the beginning, where headers are. Now and
/// then joins the beginning of `seed` to the end of `other`.
pub(crate) fn mutated(seed: &[u8], other: &[u8], rng: &mut impl Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    if !other.is_empty() && rng.random_bool(0.05) {
        bytes.truncate(rng.random_range(0..=bytes.len()));
        bytes.extend_from_slice(&other[rng.random_range(0..other.len())..]);
    }
    for _ in 0..rng.random_range(1..6) {
        let reach = if rng.random_bool(0.7) { bytes.len().min(400) } else { bytes.len() };
        if reach == 0 {
            break;
        }
        let at = rng.random_range(0..reach);
        let byte =
            if rng.random_bool(0.5) { TELLING[rng.random_range(0..TELLING.len())] } else { rng.random() };
        match rng.random_range(0..9) {
            0..4 => bytes[at] = byte,
            4 => bytes.insert(at, byte),
            5 => drop(bytes.remove(at)),
            6 => {
                // A number that promises much: eight equal bytes.
                let end = (at + 8).min(bytes.len());
                bytes[at..end].fill(byte);
            }
            7 => {
                let end = (at + rng.random_range(1..32)).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}
