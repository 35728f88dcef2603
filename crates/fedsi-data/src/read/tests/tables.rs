//! CSV tables, and the settings of files.

use std::fs;

use tempfile::TempDir;

use super::*;

pub(super) const TABLE: &str =
    "\u{feff}age,who,weight,sick\n1,anna,2,yes\n3,anna,4,no\n5,bert,6,yes\n7,bert,8,no\n";

pub(super) fn table_spec(dir: &Path) -> FilesSpec {
    FilesSpec { target: "sick".into(), client: "who".into(), ..files(dir, "t.csv") }
}

#[test]
fn csv_tables_are_read() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.csv"), TABLE).unwrap();
    let federation = open_spec(table_spec(dir.path()), PartitionKind::Natural).unwrap();
    assert_eq!(federation.input_shape(), [2]);
    assert_eq!(federation.class_names().unwrap(), ["no", "yes"]);
    assert_eq!(federation.client_name(1), Some("bert"));

    fs::write(dir.path().join("test.csv"), "age,who,weight,sick\n9,bert,1,no\n").unwrap();
    let spec = FilesSpec { test: dir.path().join("test.csv"), standardize: false, ..table_spec(dir.path()) };
    let federation = open_spec(spec.clone(), PartitionKind::Natural).unwrap();
    assert_eq!((federation.count(0, Split::Test), federation.count(1, Split::Test)), (0, 1));
    assert_eq!(federation.samples(1, Split::Test).inputs, [9.0, 1.0]);
    assert_eq!(federation.samples(0, Split::Train).inputs, [1.0, 2.0, 3.0, 4.0]);

    let numbers =
        FilesSpec { task: TaskKind::Regression, target: "age, weight".into(), client: String::new(), ..spec };
    let columns = open_spec(numbers.clone(), PartitionKind::Iid).unwrap().input_columns().unwrap().to_vec();
    assert_eq!(columns, ["sick"], "no name in who is in three rows of a client");
    let text = complaint(open_spec(FilesSpec { strict: true, ..numbers }, PartitionKind::Iid));
    assert!(text.contains("column \"who\": found \"anna\", expected a finite number"), "{text}");
}

/// Classes that are listed are those, in that order, whatever rows have; a row of another class is refused.
#[test]
fn classes_can_be_listed_beforehand() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.csv"), TABLE).unwrap();
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
    let listed = |classes: &[&str]| FilesSpec { classes: names(classes), ..table_spec(dir.path()) };
    let federation = open_spec(listed(&["yes", "unsure", "no"]), PartitionKind::Natural).unwrap();
    assert_eq!(federation.task(), Task::Classification { classes: 3 });
    assert_eq!(federation.class_names().unwrap(), ["yes", "unsure", "no"]);
    let counts = |split| federation.label_counts(0, split);
    let all: Vec<usize> = counts(Split::Train).iter().zip(counts(Split::Test)).map(|(a, b)| a + b).collect();
    assert_eq!(all, [1, 0, 1]);
    let text = complaint(open_spec(listed(&["yes"]), PartitionKind::Natural));
    assert!(text.contains("\"no\"") && text.contains("data.files.classes"), "{text}");
    let text = complaint(open_spec(listed(&["yes", "no", "yes"]), PartitionKind::Natural));
    assert!(text.contains("each once"), "{text}");
    let numbers = FilesSpec { task: TaskKind::Regression, target: "age".into(), ..listed(&["yes"]) };
    assert!(complaint(open_spec(numbers, PartitionKind::Natural)).contains("has no classes"));
}

#[test]
fn bad_csv_tables_are_refused() {
    let dir = TempDir::new().unwrap();
    for (text, expected) in [
        ("", "line 1"),
        ("age,who,weight,sick\n", "line 2: found the end of the file"),
        ("1,2,3,4\n5,6,7,8\n", "expected a column \"sick\""),
        ("age,age,who,sick\n1,2,a,b\n", "column \"age\" twice"),
        ("age,who,weight,sick\n1,anna,2\n", "line 2: found 3 cells, expected 4"),
        ("age,who,weight,sick\n1,anna,2,yes\n1,anna,,no\n", "line 3, column \"weight\": found \"\""),
        ("age,who,weight,sick\n1,anna,NaN,yes\n", "found \"NaN\", expected a finite number"),
        ("age,who,weight,sick\n1,anna,inf,yes\n", "found \"inf\""),
        ("age,who,weight,sick\n1,anna,1e600,yes\n", "found \"1e600\""),
        ("age,who,weight,sick\n1,anna,2,\n", "column \"sick\": found an empty cell"),
        ("who,sick\nanna,yes\n", "1 rows of 0 features"),
    ] {
        fs::write(dir.path().join("t.csv"), text).unwrap();
        let strict = FilesSpec { strict: true, ..table_spec(dir.path()) };
        let text = complaint(open_spec(strict, PartitionKind::Natural));
        assert!(text.contains(expected), "{text}");
    }
    fs::write(dir.path().join("t.csv"), b"age,who,weight,sick\n1,\xff,2,yes\n").unwrap();
    assert!(complaint(open_spec(table_spec(dir.path()), PartitionKind::Natural)).contains("UTF-8"));
}

#[test]
fn times_keep_their_digits_until_they_are_standardised() {
    let dir = TempDir::new().unwrap();
    let mut text = "time,sick\n".to_owned();
    for second in 0..60 {
        text += &format!("{},{}\n", 1_700_000_000 + second, second % 2);
    }
    fs::write(dir.path().join("t.csv"), text).unwrap();
    let spec = FilesSpec { target: "sick".into(), ..files(dir.path(), "t.csv") };
    let federation = open_spec(spec.clone(), PartitionKind::Iid).unwrap();
    let scaling = federation.input_scaling().unwrap();
    let mut values = Vec::new();
    for client in 0..2 {
        values.extend(federation.samples(client, Split::Train).inputs);
        values.extend(federation.samples(client, Split::Test).inputs);
    }
    values.sort_by(f32::total_cmp);
    evenly_spaced(&values, scaling.std[0]);
    let rows = read_inputs(&spec.train, &form(&spec, &[1], Some(scaling))).unwrap();
    assert_eq!(rows.inputs, values);
    assert!((scaling.restore(0, f64::from(values[7])) - 1_700_000_007.0).abs() < 1e-3);
}

#[test]
fn huge_cells_are_refused_unless_they_are_standardised() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.csv"), TABLE.replace(",8,", ",1e300,")).unwrap();
    let spec = table_spec(dir.path());
    let federation = open_spec(spec.clone(), PartitionKind::Natural).unwrap();
    let inputs = [federation.samples(1, Split::Train).inputs, federation.samples(1, Split::Test).inputs];
    assert!(inputs.iter().flatten().all(|value| value.is_finite()), "{inputs:?}");
    let expected = "line 5, column \"weight\": found \"1e300\", expected a finite number within";
    let text = complaint(read_inputs(&spec.train, &form(&spec, &[2], None)));
    assert!(text.contains(expected), "{text}");
    let small = FilesSpec { standardize: false, ..spec };
    let text = complaint(open_spec(FilesSpec { strict: true, ..small.clone() }, PartitionKind::Natural));
    assert!(text.contains(expected), "{text}");
    let summary = open_spec(small, PartitionKind::Natural).unwrap().data_summary().unwrap();
    assert_eq!((summary.bad_cells, summary.first_bad_cells[0].line), (1, 5));
}

#[test]
fn no_row_of_a_test_file_is_trained_on() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.csv"), TABLE).unwrap();
    fs::write(dir.path().join("test.csv"), TABLE).unwrap();
    let files = FilesSpec { test: dir.path().join("test.csv"), ..table_spec(dir.path()) };
    let data = DataSpec { files, ..DataSpec::defaults("files", Size::Small) };
    let partition = PartitionSpec { clients: 1, train: 1, labels_per_client: 1, ..PartitionSpec::iid(10) };
    let text = complaint(crate::open(&data, &partition, 1));
    assert!(text.starts_with("partition.train = 1: expected 0"), "{text}");
    let federation = crate::open(&data, &PartitionSpec { train: 0, ..partition }, 1).unwrap();
    assert_eq!((federation.count(0, Split::Train), federation.count(0, Split::Test)), (4, 4));
}

#[test]
fn settings_of_files_are_checked() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.csv"), TABLE).unwrap();
    let text = complaint(open_spec(FilesSpec::default(), PartitionKind::Iid));
    assert!(text.contains("data.files.train"), "{text}");
    let text = complaint(open_spec(files(dir.path(), "t.txt"), PartitionKind::Iid));
    assert!(text.contains(".csv, .parquet, .npy or .safetensors"), "{text}");
    let text = complaint(open_spec(files(dir.path(), "none.csv"), PartitionKind::Iid));
    assert!(text.contains("cannot read") && text.contains("none.csv"), "{text}");
    let unlike = FilesSpec { test: "x.npy".into(), ..table_spec(dir.path()) };
    assert!(complaint(open_spec(unlike, PartitionKind::Iid)).contains("data.files.test"));
    fs::create_dir(dir.path().join("folder.csv")).unwrap();
    assert!(
        complaint(open_spec(files(dir.path(), "folder.csv"), PartitionKind::Iid)).contains("cannot read")
    );
}
