#![no_main]
//! Checkpoints, as they are and behind a checksum that fits.
use fedsi_fl::checkpoint::{Checkpoint, sealed};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = Checkpoint::decode(bytes);
    let _ = Checkpoint::decode(&sealed(bytes));
});
