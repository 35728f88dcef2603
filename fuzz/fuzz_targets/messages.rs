#![no_main]
//! Whatever arrives over the wire.
use fedsi_fl::message::{Download, Upload};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = Download::decode(bytes);
    if let Ok(upload) = Upload::decode(bytes) {
        let _ = upload.spread.map(|spread| spread.objection(upload.shared.len()));
    }
});
