#![no_main]
//! CSV tables with a target and a client column.
use fedsi_data::{DataSpec, DatasetName, FilesSpec, PartitionKind, PartitionSpec, Size};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let files = FilesSpec {
        train: fedsi_fuzz::file("t.csv", bytes),
        target: "y".into(),
        client: "c".into(),
        ..FilesSpec::default()
    };
    let data = DataSpec { files, ..DataSpec::defaults(DatasetName::Files, Size::Small) };
    let partition = PartitionSpec {
        kind: PartitionKind::Natural,
        ..PartitionSpec::defaults(DatasetName::Files, Size::Small)
    };
    let _ = fedsi_data::open(&data, &partition, 1);
});
