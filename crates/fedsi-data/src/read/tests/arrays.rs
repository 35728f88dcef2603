//! NPY and safetensors arrays.

use std::collections::HashMap;
use std::fs;

use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;

use super::*;

pub(super) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

pub(super) fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|at| (at as f32).to_le_bytes()).collect()
}

#[test]
fn npy_arrays_are_read() {
    let dir = TempDir::new().unwrap();
    let put = |name: &str, bytes: Vec<u8>| fs::write(dir.path().join(name), bytes).unwrap();
    put("X.npy", npy("|u1", "(8, 1, 2, 2)", &[255; 32]));
    put("y_train.npy", npy("<i8", "(8,)", &[0_i64, 1, 0, 1, 0, 1, 2, 2].map(i64::to_le_bytes).concat()));
    put("who.npy", npy(">i4", "(8, 1)", &[7_i32, 7, 7, 7, 10, 10, 10, 10].map(i32::to_be_bytes).concat()));
    let spec =
        FilesSpec { target: "y_{split}.npy".into(), client: "who.npy".into(), ..files(dir.path(), "X.npy") };
    let federation = open_spec(spec, PartitionKind::Natural).unwrap();
    assert_eq!(federation.input_shape(), [1, 2, 2]);
    assert_eq!(federation.task(), Task::Classification { classes: 3 });
    assert_eq!((federation.client_name(0), federation.client_name(1)), (Some("7"), Some("10")));
    assert_eq!(federation.samples(0, Split::Train).inputs, [1.0; 12]);
    assert!(federation.input_scaling().is_none());
}

/// A list says how many classes there are, which the largest label would not.
#[test]
fn classes_of_arrays_can_be_listed_beforehand() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("X.npy"), npy("<f4", "(4, 2)", &floats(8))).unwrap();
    fs::write(dir.path().join("y.npy"), npy("|u1", "(4,)", &[0, 1, 0, 1])).unwrap();
    let listed = |count: usize| FilesSpec {
        target: "y.npy".into(),
        classes: (0..count).map(|class| format!("c{class}")).collect(),
        ..files(dir.path(), "X.npy")
    };
    let federation = open_spec(listed(3), PartitionKind::Iid).unwrap();
    assert_eq!(federation.task(), Task::Classification { classes: 3 });
    assert_eq!(federation.class_names().unwrap(), ["c0", "c1", "c2"]);
    let text = complaint(open_spec(listed(1), PartitionKind::Iid));
    assert!(text.contains("class 1") && text.contains("data.files.classes"), "{text}");
}

#[test]
fn bad_npy_arrays_are_refused() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("y.npy"), npy("|u1", "(4,)", &[0, 1, 0, 1])).unwrap();
    let deep = npy("<f4", &"(".repeat(9000), &[]);
    let mut long = npy("<f4", "(4, 2)", &floats(8));
    (long[6], long[8], long[9], long[10], long[11]) = (2, 255, 255, 255, 255);
    for (bytes, expected) in [
        (b"nothing".to_vec(), "no magic bytes"),
        (npy("<f4", "(4, 2)", &floats(7)), "28 bytes, expected 32"),
        (npy("<f4", "(4, 2)", &floats(9)), "36 bytes, expected 32"),
        (npy("<f4", "(4000000000, 4000000000, 4000000000)", &[]), "cannot be counted"),
        (npy("<f4", "(4000000000, 4000000000, 4000000000, 0)", &[]), "cannot be counted"),
        (npy("|O", "(4, 2)", &[0; 8]), "type"),
        (npy("<c8", "(4, 2)", &[0; 64]), "the type '<c8'"),
        (npy("<f4", "(3, 2)", &floats(6)), "4 rows, expected 3"),
        (npy("<f4", "(4, 0)", &[]), "4 rows of 0 features"),
        (npy("<f4", "()", &floats(1)), "4 rows, expected 0"),
        (npy("<f4", "(4,)", &[f32::NAN; 4].map(f32::to_le_bytes).concat()), "row 0, number 0: found NaN"),
        (npy("<f8", "(4,)", &[f64::INFINITY; 4].map(f64::to_le_bytes).concat()), "found inf"),
        (deep, "nested"),
        (long, "longer header"),
    ] {
        fs::write(dir.path().join("X.npy"), bytes).unwrap();
        let spec = FilesSpec { target: "y.npy".into(), ..files(dir.path(), "X.npy") };
        let text = complaint(open_spec(spec, PartitionKind::Iid));
        assert!(text.contains(expected), "{text}");
    }
    fs::write(dir.path().join("X.npy"), npy("<f4", "(4, 2)", &floats(8))).unwrap();
    for (label, found) in [(-1, "-1"), (70_000, "70000")] {
        let labels: [i32; 4] = [0, 1, label, 0];
        fs::write(dir.path().join("y.npy"), npy("<i4", "(4,)", &labels.map(i32::to_le_bytes).concat()))
            .unwrap();
        let spec = FilesSpec { target: "y.npy".into(), ..files(dir.path(), "X.npy") };
        let text = complaint(open_spec(spec, PartitionKind::Iid));
        assert!(text.contains(&format!("row 2: found {found}, expected a class")), "{text}");
    }
}

pub(super) fn tensors_bytes() -> Vec<u8> {
    let inputs = floats(24);
    let target: Vec<u8> = (0..8).flat_map(|at| (f64::from(at) * 2.0).to_le_bytes()).collect();
    let client: Vec<u8> = (0..8_i64).flat_map(|at| (at % 2).to_le_bytes()).collect();
    let view = |dtype, shape: &[usize], data| TensorView::new(dtype, shape.to_vec(), data).unwrap();
    let arrays = HashMap::from([
        ("inputs", view(Dtype::F32, &[8, 3], &inputs)),
        ("target", view(Dtype::F64, &[8], &target)),
        ("client", view(Dtype::I64, &[8], &client)),
    ]);
    safetensors::serialize(arrays, None).unwrap()
}

#[test]
fn safetensors_are_read() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("d.safetensors"), tensors_bytes()).unwrap();
    let spec = FilesSpec {
        task: TaskKind::Regression,
        client: "client".into(),
        ..files(dir.path(), "d.safetensors")
    };
    let federation = open_spec(spec.clone(), PartitionKind::Natural).unwrap();
    assert_eq!(federation.task(), Task::Regression { outputs: 1 });
    assert_eq!((federation.count(0, Split::Train), federation.count(0, Split::Test)), (3, 1));
    let scaling = federation.target_scaling().unwrap().clone();
    let Targets::Values(values) = federation.samples(1, Split::Test).targets else { panic!("a regression") };
    let restored = scaling.restore(0, f64::from(values[0]));
    assert!((restored / 2.0 - (restored / 2.0).round()).abs() < 1e-5, "{restored}");
    assert!(federation.label_counts(0, Split::Train).is_empty());
    let rows = read_inputs(&spec.train, &form(&spec, &[3], federation.input_scaling())).unwrap();
    assert_eq!((rows.count, rows.inputs.len()), (8, 24));
    assert!(
        complaint(read_inputs(&spec.train, &form(&spec, &[4], None))).contains("an array of shape [8, 3]")
    );

    let text = complaint(open_spec(FilesSpec { target: "y".into(), ..spec.clone() }, PartitionKind::Iid));
    assert!(text.contains("array \"y\"") && text.contains("client, inputs, target"), "{text}");
    let text = complaint(open_spec(FilesSpec { shape: vec![2], ..spec }, PartitionKind::Iid));
    assert!(text.contains("data.files.shape = [2]"), "{text}");
}

/// Whole numbers from `first` on, as an array of the type.
fn counting(descr: &str, first: i64, count: i64) -> Vec<u8> {
    let data: Vec<u8> = (first..first + count)
        .flat_map(|value| match descr {
            "<f8" => (value as f64).to_le_bytes().to_vec(),
            "<u4" => (value as u32).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        })
        .collect();
    npy(descr, &format!("({count},)"), &data)
}

#[test]
fn arrays_keep_their_digits_until_they_are_standardised() {
    let dir = TempDir::new().unwrap();
    for descr in ["<f8", "<i8", "<u4"] {
        fs::write(dir.path().join("X.npy"), counting(descr, 1_700_000_000, 60)).unwrap();
        let regression =
            FilesSpec { target: "X.npy".into(), task: TaskKind::Regression, ..files(dir.path(), "X.npy") };
        let federation = open_spec(regression.clone(), PartitionKind::Iid).unwrap();
        let std = federation.input_scaling().unwrap().std[0];
        assert!((15.0..20.0).contains(&std), "{descr}: {std}");
        let rows =
            read_inputs(&regression.train, &form(&regression, &[1], federation.input_scaling())).unwrap();
        evenly_spaced(&rows.inputs, std);
        let mut targets = Vec::new();
        for (client, split) in [(0, Split::Train), (0, Split::Test), (1, Split::Train), (1, Split::Test)] {
            let Targets::Values(values) = federation.samples(client, split).targets else {
                panic!("numbers")
            };
            targets.extend(values);
        }
        targets.sort_by(f32::total_cmp);
        evenly_spaced(&targets, federation.target_scaling().unwrap().std[0]);
    }
}

#[test]
fn huge_numbers_are_refused_unless_they_are_standardised() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("y.npy"), npy("|u1", "(4,)", &[0, 1, 0, 1])).unwrap();
    let huge = [1.0, 2.0, 3.0, 1e300_f64].map(f64::to_le_bytes).concat();
    fs::write(dir.path().join("X.npy"), npy("<f8", "(4, 1)", &huge)).unwrap();
    let spec = FilesSpec { target: "y.npy".into(), ..files(dir.path(), "X.npy") };
    let federation = open_spec(spec.clone(), PartitionKind::Iid).unwrap();
    for client in 0..2 {
        let inputs = federation.samples(client, Split::Train).inputs;
        assert!(inputs.iter().all(|value| value.is_finite()), "{inputs:?}");
    }
    let rows = read_inputs(&spec.train, &form(&spec, &[1], federation.input_scaling())).unwrap();
    assert!(rows.inputs.iter().all(|value| value.is_finite()));
    let text = complaint(open_spec(FilesSpec { standardize: false, ..spec.clone() }, PartitionKind::Iid));
    assert!(text.contains("row 3, number 0: found 1e300, expected a finite number within"), "{text}");
    assert!(complaint(read_inputs(&spec.train, &form(&spec, &[1], None))).contains("found 1e300"));
}
