#![no_main]
//! PNG, IDX and CIFAR-10's batches.
use fedsi_data::{DataSpec, DatasetName, FilesSpec, InputForm, PartitionSpec, Size, read_inputs};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let files = FilesSpec::default();
    let form = InputForm {
        dataset: DatasetName::Mnist,
        files: &files,
        shape: &[1, 28, 28],
        columns: None,
        pixels: true,
        scaling: None,
    };
    for name in ["x.png", "train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"] {
        let _ = read_inputs(&fedsi_fuzz::file(name, bytes), &form);
    }
    let batch = fedsi_fuzz::file("cifar-10/cifar-10-batches-bin/data_batch_1.bin", bytes);
    let folder = batch.ancestors().nth(3).map(std::path::Path::to_owned).unwrap_or_default();
    let data = DataSpec { dir: folder, ..DataSpec::defaults(DatasetName::Cifar10, Size::Small) };
    let _ = fedsi_data::open(&data, &PartitionSpec::defaults(DatasetName::Cifar10, Size::Small), 1);
});
