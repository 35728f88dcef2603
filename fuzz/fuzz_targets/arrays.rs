#![no_main]
//! NPY and safetensors.
use fedsi_data::{DatasetName, FilesSpec, InputForm, read_inputs};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let files = FilesSpec::default();
    let form = InputForm {
        dataset: DatasetName::Files,
        files: &files,
        shape: &[4],
        columns: None,
        pixels: false,
        scaling: None,
    };
    for name in ["x.npy", "x.safetensors"] {
        let _ = read_inputs(&fedsi_fuzz::file(name, bytes), &form);
    }
});
