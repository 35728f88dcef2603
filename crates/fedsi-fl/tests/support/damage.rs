//! Damaged bytes for readers: refused on one line or read, without a panic, and without memory that they cannot back.

use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use rand::RngExt as _;

/// Damaged bytes of each kind.
pub const CASES: usize = 40_000;

/// What a few kilobytes may cost, whatever they promise.
const MAX_BYTES: u64 = 8 << 20;

const TELLING: [u8; 12] = [0, 1, 8, 127, 128, 255, b'9', b'[', b',', b'"', b'{', b'\n'];

/// Overwrites, inserts, removes or cuts off bytes: mostly near the beginning, where headers are.
fn damaged(good: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..rng.random_range(1..6) {
        let reach = if rng.random_bool(0.7) { bytes.len().min(400) } else { bytes.len() };
        if reach == 0 {
            break;
        }
        let at = rng.random_range(0..reach);
        let byte =
            if rng.random_bool(0.5) { TELLING[rng.random_range(0..TELLING.len())] } else { rng.random() };
        match rng.random_range(0..8) {
            0..5 => bytes[at] = byte,
            5 => bytes.insert(at, byte),
            6 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// Damages the bytes in so many ways.
pub fn hostile_cases(cases: usize, name: &str, good: &[u8], read: impl Fn(&[u8]) -> Result<(), String>) {
    let mut rng = Streams::new(good.len() as u64).stream(Purpose::Batches, 0, 0);
    for case in 0..cases {
        let bytes = damaged(good, &mut rng);
        let mut outcome = Ok(());
        let used = allocation_counter::measure(|| outcome = read(&bytes));
        assert!(used.bytes_max < MAX_BYTES, "{name}, case {case}: {} bytes of memory", used.bytes_max);
        if let Err(error) = outcome {
            assert!(!error.contains('\n'), "{name}, case {case}: {error}");
        }
    }
    read(good).unwrap_or_else(|error| panic!("{name}: undamaged, it is refused: {error}"));
}
